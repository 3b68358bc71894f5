package history

// SetVersion writes a version of the schema.
func SetVersion(s *Store, version int64) error {
	_, err := s.db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, version)
	return err
}
