#![doc = include_str!("../README.md")]

pub mod rate_limit;

pub use rate_limit::{LocalRateLimiter, RateLimiter, Taken};
