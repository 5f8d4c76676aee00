//! A long-running part of a process.

use std::fmt;

use futures::FutureExt;
use futures::future::BoxFuture;
use postroom::{BoxError, CancellationToken, Result};

use crate::host::Host;

type Work = BoxFuture<'static, Result<(), BoxError>>;

/// A part that has not started.
pub(crate) struct Part {
    pub(crate) name: String,
    start: Box<dyn FnOnce(Host, CancellationToken) -> Work + Send + Sync>,
}

impl Part {
    pub(crate) fn new<F, Fut, E>(name: impl Into<String>, part: F) -> Self
    where
        F: FnOnce(Host, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self {
            name: name.into(),
            // The function runs inside the future, so that its panic is caught with those of its work.
            start: Box::new(move |host, stop| async move { part(host, stop).await.map_err(Into::into) }.boxed()),
        }
    }

    /// Its name and its work, which has not begun.
    pub(crate) fn start(self, host: Host, stop: CancellationToken) -> (String, Work) {
        (self.name, (self.start)(host, stop))
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.name).finish()
    }
}
