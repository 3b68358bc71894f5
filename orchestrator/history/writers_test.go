package history_test

// writerVariable makes the test binary a writer; its value is the address of the store.
const writerVariable = "CANDELA_TEST_WRITER"

func writeUntilKilled() int { return 0 }
