//! The pages that commands print: one file for each kind of answer.

pub mod activity;
pub mod catalog;
pub mod checkup;
pub mod dead_letter;
pub mod finding;
pub mod reason;
pub mod replay;
pub mod retry;
pub mod status;
pub mod timeline;
pub mod token;
