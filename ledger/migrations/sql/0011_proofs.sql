-- What a person proved beside their session when they decided: none for what needed no proof.
ALTER TABLE decisions ADD COLUMN proof text CHECK (proof IN ('password', 'sign_in'));

-- A sign-in at the provider of somebody who is signed in already, to prove that they are still there: for the page that
-- they came from alone.
ALTER TABLE sign_ins ADD COLUMN again boolean NOT NULL DEFAULT false;
ALTER TABLE sessions ADD COLUMN proven_at timestamptz, ADD COLUMN proven_for text,
    ADD CHECK ((proven_at IS NULL) = (proven_for IS NULL));
