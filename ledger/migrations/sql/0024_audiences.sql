-- The one interface (a URL) that a token is good at; NULL for every one that takes its kind.
ALTER TABLE tokens ADD COLUMN resource text;
