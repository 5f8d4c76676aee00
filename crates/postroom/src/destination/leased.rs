//! Whether the relay that delivers still holds its lease, for destinations that shut out others.

use std::fmt;
use std::sync::Arc;

tokio::task_local! {
    static LEASE: Check;
}

#[derive(Clone)]
struct Check(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

/// Whether this process still holds the lease under which this task delivers, by the cautious clock of the process. Outside of a
/// lease the answer is `true`. A destination asks before it shuts out another process that delivers there.
pub fn is_leased() -> bool {
    LEASE.try_with(|Check(is_held)| is_held()).unwrap_or(true)
}

/// Delivers under a lease: [`is_leased`] answers what `is_held` says.
pub async fn while_leased<T>(
    is_held: impl Fn() -> bool + Send + Sync + 'static,
    delivering: impl Future<Output = T>,
) -> T {
    LEASE.scope(Check(Arc::new(is_held)), delivering).await
}
