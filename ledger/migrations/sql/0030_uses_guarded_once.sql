-- The setting is read once for a statement that counts, not for each of the thousands of uses that it counts.
ALTER POLICY tenants ON uses USING ((SELECT current_setting('counterseal.tenant', true)) IN (tenant, '*'));
