-- One schema for SQLite and PostgreSQL. {{...}} is what they spell differently (open.go): INT8 an integer that is a row
-- id, TEXT text that sorts by its bytes, CLUSTERED rows that are stored in the order of the primary key.
-- Ids are given by the writer, of which there is one at a time.

-- +goose Up

-- A test under all the names that it had. origin is the first, from which the identities of findings derive.
CREATE TABLE test (
  id {{INT8}} PRIMARY KEY,
  origin {{TEXT}} NOT NULL,
  name {{TEXT}} NOT NULL,
  path {{TEXT}} NOT NULL,
  metadata_id {{TEXT}} NOT NULL,
  owner {{TEXT}} NOT NULL,
  requirement {{TEXT}} NOT NULL,
  latest BIGINT NOT NULL
);

CREATE TABLE test_name (
  name {{TEXT}} PRIMARY KEY,
  test BIGINT NOT NULL REFERENCES test (id)
);

-- A test at a point of its sweep; an empty point: no sweep.
CREATE TABLE variant (
  id {{INT8}} PRIMARY KEY,
  test BIGINT NOT NULL REFERENCES test (id),
  point {{TEXT}} NOT NULL,
  UNIQUE (test, point)
);

CREATE TABLE testbed (
  id {{INT8}} PRIMARY KEY,
  name {{TEXT}} NOT NULL UNIQUE
);

CREATE TABLE environment (
  id {{INT8}} PRIMARY KEY,
  hash {{TEXT}} NOT NULL UNIQUE
);

CREATE TABLE property (
  environment BIGINT NOT NULL REFERENCES environment (id),
  name {{TEXT}} NOT NULL,
  value {{TEXT}} NOT NULL,
  PRIMARY KEY (environment, name)
) {{CLUSTERED}};

CREATE INDEX property_value ON property (value, name);

-- Transitions that runs exercised, as JSON; many runs share one row.
CREATE TABLE coverage (
  id {{INT8}} PRIMARY KEY,
  hash {{TEXT}} NOT NULL UNIQUE,
  document {{TEXT}} NOT NULL
);

-- night counts days since 1970, times are microseconds since 1970, verdict is the exit status.
CREATE TABLE run (
  id {{INT8}} PRIMARY KEY,
  run_id {{TEXT}} NOT NULL UNIQUE,
  variant BIGINT NOT NULL REFERENCES variant (id),
  testbed BIGINT NOT NULL REFERENCES testbed (id),
  environment BIGINT NOT NULL REFERENCES environment (id),
  coverage BIGINT REFERENCES coverage (id),
  night INTEGER NOT NULL,
  verdict INTEGER NOT NULL,
  started BIGINT NOT NULL,
  finished BIGINT NOT NULL,
  analysed BIGINT NOT NULL,
  seed BIGINT NOT NULL,
  repetition INTEGER NOT NULL,
  config BYTEA NOT NULL,
  tool {{TEXT}} NOT NULL,
  reasons {{TEXT}} NOT NULL,
  content BYTEA NOT NULL
);

CREATE INDEX run_night ON run (night, variant, testbed, verdict, environment);
CREATE INDEX run_variant ON run (variant, testbed, night, verdict, environment);
CREATE INDEX run_started ON run (started);
CREATE INDEX run_environment ON run (environment, night);

-- Analyses of a run that was analysed more than once, the counting one included.
CREATE TABLE analysis (
  run BIGINT NOT NULL REFERENCES run (id),
  analysed BIGINT NOT NULL,
  content BYTEA NOT NULL,
  verdict INTEGER NOT NULL,
  tool {{TEXT}} NOT NULL,
  PRIMARY KEY (run, analysed, content)
);

-- A finding as it comes back from night to night.
CREATE TABLE issue (
  id {{INT8}} PRIMARY KEY,
  hash {{TEXT}} NOT NULL UNIQUE,
  variant BIGINT NOT NULL REFERENCES variant (id),
  rule {{TEXT}} NOT NULL,
  cause {{TEXT}} NOT NULL,
  role {{TEXT}} NOT NULL
);

CREATE INDEX issue_variant ON issue (variant);

CREATE TABLE waiver (
  id {{INT8}} PRIMARY KEY,
  text {{TEXT}} NOT NULL UNIQUE
);

-- severity: 1 violation, 2 warning, 3 note. expected: the test wants it.
CREATE TABLE finding (
  run BIGINT NOT NULL REFERENCES run (id),
  number INTEGER NOT NULL,
  issue BIGINT NOT NULL REFERENCES issue (id),
  severity INTEGER NOT NULL,
  expected INTEGER NOT NULL,
  waiver BIGINT REFERENCES waiver (id),
  connection BIGINT NOT NULL,
  psn BIGINT NOT NULL,
  time_ns BIGINT NOT NULL,
  packets {{TEXT}} NOT NULL,
  headline {{TEXT}} NOT NULL,
  PRIMARY KEY (run, number)
) {{CLUSTERED}};

CREATE INDEX finding_issue ON finding (issue, run, severity);

-- A metric of a variant on a testbed.
CREATE TABLE series (
  id {{INT8}} PRIMARY KEY,
  variant BIGINT NOT NULL REFERENCES variant (id),
  testbed BIGINT NOT NULL REFERENCES testbed (id),
  name {{TEXT}} NOT NULL,
  unit {{TEXT}} NOT NULL,
  UNIQUE (variant, testbed, name)
);

CREATE INDEX series_name ON series (name);

CREATE TABLE metric (
  run BIGINT NOT NULL REFERENCES run (id),
  series BIGINT NOT NULL REFERENCES series (id),
  night INTEGER NOT NULL,
  n BIGINT NOT NULL,
  least DOUBLE PRECISION NOT NULL,
  mean DOUBLE PRECISION NOT NULL,
  p50 DOUBLE PRECISION NOT NULL,
  p99 DOUBLE PRECISION NOT NULL,
  p999 DOUBLE PRECISION NOT NULL,
  most DOUBLE PRECISION NOT NULL,
  histogram BYTEA,
  PRIMARY KEY (run, series)
) {{CLUSTERED}};

CREATE INDEX metric_series ON metric (series, night, run, p50, p99, mean, most);

-- The runs of a series in a night, from which writers keep it: median of their medians; center and spread of these, as
-- logarithms if all are positive; samples: the medians, as float64.
CREATE TABLE nightly (
  series BIGINT NOT NULL REFERENCES series (id),
  night INTEGER NOT NULL,
  n INTEGER NOT NULL,
  median DOUBLE PRECISION NOT NULL,
  center DOUBLE PRECISION NOT NULL,
  spread DOUBLE PRECISION NOT NULL,
  positive INTEGER NOT NULL,
  samples BYTEA NOT NULL,
  PRIMARY KEY (series, night)
) {{CLUSTERED}};

CREATE INDEX nightly_night ON nightly (night, series);

-- Where the files of a run are.
CREATE TABLE artefact (
  run BIGINT NOT NULL REFERENCES run (id),
  kind {{TEXT}} NOT NULL,
  location {{TEXT}} NOT NULL,
  PRIMARY KEY (run, kind, location)
) {{CLUSTERED}};

-- Counts what invalidates ids that another writer has in memory.
CREATE TABLE generation (
  one INTEGER PRIMARY KEY,
  number BIGINT NOT NULL
);

INSERT INTO generation (one, number) VALUES (1, 0);
