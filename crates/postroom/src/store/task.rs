//! Work that must not be cut off in the middle.

use crate::error::{Error, ErrorKind, Result};

/// Runs `work` to its end even when the caller is dropped. A BEGIN that is cut off leaves its connection inside a
/// transaction nobody knows of, and the pool hands it to the next borrower (sqlx 0.9 with PostgreSQL and MySQL).
#[expect(
    clippy::disallowed_methods,
    reason = "it is to outlive whoever waits for it, by one step"
)]
pub(crate) async fn to_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(source) => Err(Error::caused(
                ErrorKind::Unavailable,
                "finish before the runtime stops",
                source,
            )),
        },
    }
}
