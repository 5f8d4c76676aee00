//! Member tokens from outside: each kind of key, each attack, and key servers that fail.

mod given_keys;
mod key_server;
mod server_keys;
mod signer;
