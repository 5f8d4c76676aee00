//! Forgets routes that were switched off, when no process works them any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom::operate::{self, GivenUp, Standing, counted};
use postroom::{ErrorKind, Inspect, Job, Result};

use crate::module::{Module, Retired};

/// So many leases long must a route be without a worker: a process that still has the route may be restarting.
const LEASES: u32 = 2;
/// How long one look may take. A route that another process works is looked at again after this.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The job that forgets the routes which this module has declared as retired, if there are any.
pub(super) fn job(store: &Arc<dyn Inspect>, module: &mut Module, lease: Duration) -> Option<Job> {
    let retired = std::mem::take(&mut module.retired);
    if retired.is_empty() {
        return None;
    }
    let retirement = Arc::new(Retirement {
        store: Arc::clone(store),
        module: module.name,
        retired,
        grace: lease * LEASES,
        free_since: Mutex::default(),
    });
    let mut job = Job::on_signal(format!("retire-{}", module.name), move |_outbox| {
        let retirement = Arc::clone(&retirement);
        async move { retirement.look().await }
    });
    job.timeout = TIMEOUT;
    Some(job)
}

struct Retirement {
    store: Arc<dyn Inspect>,
    module: &'static str,
    retired: Vec<Retired>,
    grace: Duration,
    /// Since when each route has been seen without a worker.
    free_since: Mutex<HashMap<String, Instant>>,
}

impl Retirement {
    /// Forgets what can be forgotten; returns how many routes are to be looked at again soon.
    async fn look(&self) -> Result<u64> {
        let mut waiting = 0;
        for retired in &self.retired {
            let standing = operate::standing(&*self.store, &retired.carrier.route).await?;
            match self.is_over(&retired.carrier.route, standing) {
                Some(true) => self.retire(retired).await?,
                Some(false) => waiting += 1,
                None => {}
            }
        }
        Ok(waiting)
    }

    /// Whether the route has had no worker for long enough; `None` if it has one, or is not in the store.
    fn is_over(&self, route: &str, standing: Standing) -> Option<bool> {
        let mut since = self.free_since.lock().unwrap_or_else(PoisonError::into_inner);
        if standing != Standing::Free {
            since.remove(route);
            return None;
        }
        let first = since.entry(route.to_owned()).or_insert_with(Instant::now);
        Some(first.elapsed() >= self.grace)
    }

    async fn retire(&self, retired: &Retired) -> Result<()> {
        let actor = format!("module:{}", self.module);
        match operate::retire(&*self.store, &retired.carrier, &actor).await {
            Ok(given_up) => log(retired, given_up),
            Err(error) if error.kind() == ErrorKind::Conflict => {} // a process works it again
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn log(Retired { carrier, again }: &Retired, given_up: GivenUp) {
    let GivenUp {
        unread,
        is_exact,
        parked,
        dead,
    } = given_up;
    let route = &carrier.route;
    match unread + parked + dead {
        0 => tracing::info!(
            route,
            "the route is switched off and was forgotten; it had delivered everything"
        ),
        _ => tracing::warn!(
            route,
            unread,
            is_exact,
            parked,
            dead,
            "the route is switched off and was forgotten. It had not delivered {}{}, and will not: {again}. Its dead letters stay",
            if is_exact { "" } else { "at least " },
            counted(unread + parked, "event", "events"),
        ),
    }
}
