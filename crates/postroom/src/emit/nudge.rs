//! The in-process nudge: an emit tells the relay of the same process that a commit is about to come.
//!
//! The caller's transaction is the caller's, so nobody can hook its commit; instead the relay looks more often for a
//! moment. The state is global because `emit` has nothing but the caller's connection to work with.

use std::sync::LazyLock;

use tokio::sync::Notify;

static NUDGE: LazyLock<Notify> = LazyLock::new(Notify::new);

/// Says that a transaction of this process has emitted and is about to commit. Store crates call it in `append`.
pub fn expect_commit() {
    NUDGE.notify_waiters();
}

/// Resolves at the next [`expect_commit`] after this call.
pub(crate) fn nudged() -> tokio::sync::futures::Notified<'static> {
    NUDGE.notified()
}
