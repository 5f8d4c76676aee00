//! The HTTP API for members, except notifications (`inbox`), their stream (`realtime`) and chat.

mod comment;
mod member;
mod post;
pub(crate) mod request;
mod vote;

use std::sync::Arc;

use postroom_host::{Access, Routes};
use postroom_shared::Slot;

use crate::Settings;

pub(crate) fn routes(settings: Arc<Settings>, shared: Slot) -> Routes {
    Routes::new(Access::Member)
        .put("/community/members/me", member::put)
        .get("/community/members/{member_id}", member::show)
        .put("/community/members/{member_id}/follow", member::follow)
        .delete("/community/members/{member_id}/follow", member::unfollow)
        .post("/community/posts", post::write)
        .get("/community/posts", post::list)
        .get("/community/posts/{post_id}", post::show)
        .put("/community/posts/{post_id}/like", post::like)
        .delete("/community/posts/{post_id}/like", post::unlike)
        .post("/community/posts/{post_id}/comments", comment::write)
        .get("/community/posts/{post_id}/comments", comment::list)
        .delete("/community/comments/{comment_id}", comment::delete)
        .post("/community/votes", vote::open)
        .get("/community/votes/{vote_id}", vote::show)
        .put("/community/votes/{vote_id}/ballot", vote::cast)
        .extension(settings)
        .extension(shared)
}
