//! The name of a stream.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A sequence of frames, numbered from 1 without holes in the database: `member/42`, `room/10`. Cloning it is cheap.
///
/// A name has at most 200 bytes and one line; [`crate::Hub::publish`] refuses others.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(Arc<str>);

/// Of the name of a stream.
const BYTES_MAX: usize = 200;

impl StreamKey {
    /// The stream with this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can be published: it stands on a line of its own in each message.
    pub(crate) fn is_valid(&self) -> bool {
        (1..=BYTES_MAX).contains(&self.0.len()) && !self.0.contains(char::is_control)
    }
}

impl From<&str> for StreamKey {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for StreamKey {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// Maps with streams as keys are searched by name.
impl Borrow<str> for StreamKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
