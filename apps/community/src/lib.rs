//! A community: members who follow each other, posts with comments, likes and votes, notifications and group chat.

mod chat;

use postroom_host::Module;

/// The module's name.
pub const NAME: &str = "community";

/// The module.
pub fn module() -> Module {
    chat::join(Module::new(NAME))
}
