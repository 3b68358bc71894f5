-- Questions about many nights count runs and look at every metric. A row for each outcome of a test on a night says how
-- many runs there are, failed runs and those that were not judged have indexes of their own, and what nightly says of a
-- testbed's metrics on a night is one value.

-- +goose Up

-- Writers keep it: runs of a variant with one verdict in one environment. runs may be 0.
CREATE TABLE tally (
  night INTEGER NOT NULL,
  variant BIGINT NOT NULL REFERENCES variant (id),
  testbed BIGINT NOT NULL REFERENCES testbed (id),
  verdict INTEGER NOT NULL,
  environment BIGINT NOT NULL REFERENCES environment (id),
  runs BIGINT NOT NULL,
  PRIMARY KEY (night, variant, testbed, verdict, environment)
) {{CLUSTERED}};

CREATE INDEX tally_variant ON tally (variant, night, testbed, verdict, environment, runs);

INSERT INTO tally (night, variant, testbed, verdict, environment, runs)
SELECT night, variant, testbed, verdict, environment, count(*) FROM run
GROUP BY night, variant, testbed, verdict, environment;

CREATE INDEX run_failed ON run (night, variant, testbed) WHERE verdict = 1;

CREATE INDEX run_lost ON run (night, variant) WHERE verdict NOT IN (0, 1);

-- Writers keep it; pack.go has the form. The next migration fills it.
CREATE TABLE pack (
  testbed BIGINT NOT NULL REFERENCES testbed (id),
  night INTEGER NOT NULL,
  metrics BYTEA NOT NULL,
  PRIMARY KEY (testbed, night)
) {{CLUSTERED}};
