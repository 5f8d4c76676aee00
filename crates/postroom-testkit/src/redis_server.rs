//! A private Redis server, for tests that take it away.
