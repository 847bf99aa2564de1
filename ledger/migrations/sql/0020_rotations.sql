-- There are few such seals among very many.
CREATE INDEX seals_of_rotations ON seals (number) WHERE checkpoint LIKE E'%\nnext-key %';
