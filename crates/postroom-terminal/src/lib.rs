#![doc = include_str!("../README.md")]

pub mod age;
pub mod board;
pub mod listing;
pub mod output;
pub mod page;
pub mod text;
pub mod view;
