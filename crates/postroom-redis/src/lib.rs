//! Postroom's broker on Redis Streams.
