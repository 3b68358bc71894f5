-- Questions about many metrics read the nights from the index alone.

-- +goose Up
DROP INDEX nightly_night;

CREATE INDEX nightly_night ON nightly (night, series, n, median, center, spread, positive);
