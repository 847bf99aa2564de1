-- What runs with the owner's rights is for the trigger on `uses` alone. Everybody may make temporary tables, and whoever may
-- execute it could hang it on one of theirs and write sums that no use has. Triggers that there are run all the same.
REVOKE EXECUTE ON FUNCTION add_up_uses() FROM PUBLIC;
