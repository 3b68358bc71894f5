-- The findings of a night: those of the runs that failed, which are few and have an index, and the waived ones of runs
-- that passed. Without it PostgreSQL reads all findings of all nights.

-- +goose Up

CREATE INDEX finding_waived ON finding (run) WHERE waiver IS NOT NULL;
