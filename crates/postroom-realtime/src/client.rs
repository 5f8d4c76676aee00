//! The client of a connection, as the application has identified it.

use std::sync::Arc;

use time::OffsetDateTime;
use uuid::Uuid;

/// The longest name of a tab that is remembered.
const TAB_BYTES_MAX: usize = 100;

/// A member that opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub(crate) member: Arc<str>,
    pub(crate) until: Option<OffsetDateTime>,
    pub(crate) tab: Option<Box<str>>,
    pub(crate) previous: Option<Uuid>,
    /// The hash of the ticket that it came with.
    pub(crate) ticket: Option<u64>,
}

impl Client {
    /// A client of this member.
    pub fn new(member: impl Into<Arc<str>>) -> Self {
        Self {
            member: member.into(),
            until: None,
            tab: None,
            previous: None,
            ticket: None,
        }
    }

    /// Its token expires at this time: the connection ends then.
    #[must_use]
    pub fn until(mut self, expires_at: OffsetDateTime) -> Self {
        self.until = Some(expires_at);
        self
    }

    /// The tab that it says it is, the same whenever it comes again. A tab whose connection was evicted is refused for a minute, so
    /// that clients that reconnect by themselves do not evict each other for ever.
    #[must_use]
    pub fn tab(mut self, tab: Option<&str>) -> Self {
        let known = tab.filter(|tab| (1..=TAB_BYTES_MAX).contains(&tab.len()));
        self.tab = known.map(Into::into);
        self
    }

    /// The connection that it had before, from the header `x-connection-id`; refused like a tab if that was evicted.
    #[must_use]
    pub fn previously(mut self, connection: Option<Uuid>) -> Self {
        self.previous = connection;
        self
    }

    /// The member.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// When its token expires.
    pub fn expires_at(&self) -> Option<OffsetDateTime> {
        self.until
    }
}
