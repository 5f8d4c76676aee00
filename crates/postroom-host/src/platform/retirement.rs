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
        free: Mutex::default(),
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
    free: Mutex<HashMap<String, Free>>,
}

/// A route without a worker.
#[derive(Clone, Copy)]
struct Free {
    since: Instant,
    epochs: i64,
}

impl Retirement {
    /// Forgets what can be forgotten; returns how many routes are to be looked at again soon.
    async fn look(&self) -> Result<u64> {
        let mut waiting = 0;
        for retired in &self.retired {
            let standing = operate::standing(&*self.store, &retired.carrier.route).await?;
            match self.free(&retired.carrier.route, standing) {
                Some(free) if free.since.elapsed() >= self.grace => self.retire(retired, free.epochs).await?,
                Some(_) => waiting += 1,
                None => {}
            }
        }
        Ok(waiting)
    }

    /// Since when the route has had no worker; `None` if it has one, or is not in the store. A route that was worked between two looks
    /// begins anew.
    fn free(&self, route: &str, standing: Standing) -> Option<Free> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let Standing::Free { epochs } = standing else {
            free.remove(route);
            return None;
        };
        let now = Free {
            since: Instant::now(),
            epochs,
        };
        let known = free.entry(route.to_owned()).or_insert(now);
        if known.epochs != epochs {
            *known = now;
        }
        Some(*known)
    }

    async fn retire(&self, retired: &Retired, epochs: i64) -> Result<()> {
        let actor = format!("module:{}", self.module);
        match operate::retire(&*self.store, &retired.carrier, epochs, &actor).await {
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
