//! A community: members who follow each other, posts with comments, likes and votes, notifications and group chat.

mod chat;
mod events;
mod settings;
mod stream;
mod tables;

use postroom::Migration;
use postroom_host::Module;
use sea_orm::DbBackend;

pub use events::{
    Addressed, CommentCountDelta, CommentCreated, Content, MemberFollowed, PostLiked, StreamAppended, VoteClosed,
    VoteDue, VotersListed,
};
pub use settings::Settings;

/// The module's name.
pub const NAME: &str = "community";

/// The module.
pub fn module() -> Module {
    Module::new(NAME)
        .tables_on(migrations)
        .event::<MemberFollowed>()
        .event::<PostLiked>()
        .event::<CommentCreated>()
        .event::<CommentCountDelta>()
        .event::<VoteDue>()
        .event::<VoteClosed>()
        .event::<VotersListed>()
        .event::<StreamAppended>()
        .settings(join)
}

/// Adds what the settings ask for.
fn join(module: Module, settings: Settings) -> Module {
    chat::join(module, &settings)
}

/// All migrations, oldest first.
fn migrations(database: DbBackend) -> Vec<Migration> {
    let own = [tables::migration(database)].into_iter();
    own.chain(chat::migrations()).collect()
}
