-- Findings about a port of a switch are recognised by the port's role, too, which is a part of role after a comma. What
-- was written before has no port's role: which of several ports it was about is not known. So the first finding with a
-- port's role continues the one without, under the new identity; others are new ones.

-- +goose Up

-- Identities that findings had before.
CREATE TABLE former_issue (
  hash {{TEXT}} PRIMARY KEY,
  issue BIGINT NOT NULL REFERENCES issue (id)
);

CREATE INDEX former_issue_issue ON former_issue (issue);

-- The latest night with a firmware: of one that is long gone, the index of runs by night passes all runs since.
CREATE INDEX tally_environment ON tally (environment, night);
