-- Since when nothing of it can be read: its customer was erased. It stands in the rows themselves, so that whoever waits
-- for one of them sees it, and no key that a process still knows opens it.
ALTER TABLE calls ADD COLUMN erased_at timestamptz;
ALTER TABLE approvals ADD COLUMN erased_at timestamptz;
