//! The suite of each port on its local implementation.

use std::future::ready;
use std::sync::Arc;

use postroom_shared::{LocalTally, SharedState, Tally};
use postroom_testkit::{fan_out_suite, rate_limit_suite, registry_suite, tally_suite, ticket_suite};

/// One instance has all the state there is.
async fn local() -> registry_suite::Instances {
    let shared = SharedState::local();
    ready([shared.clone(), shared]).await
}

async fn rate_limiters() -> rate_limit_suite::Instances {
    local().await.map(|shared| shared.rate_limiter)
}

async fn fan_outs() -> fan_out_suite::Instances {
    local().await.map(|shared| shared.fan_out)
}

async fn tallies() -> tally_suite::Instances {
    let tally: Arc<dyn Tally> = Arc::new(LocalTally::keeping(tally_suite::KEPT));
    ready([Arc::clone(&tally), tally]).await
}

async fn tickets() -> ticket_suite::Instances {
    local().await.map(|shared| shared.tickets)
}

mod rate_limit {
    postroom_testkit::rate_limit_suite!(crate::rate_limiters);
}

mod fan_out {
    postroom_testkit::fan_out_suite!(crate::fan_outs);
}

mod registry {
    postroom_testkit::registry_suite!(crate::local);
}

mod tally {
    postroom_testkit::tally_suite!(crate::tallies);
}

mod ticket {
    postroom_testkit::ticket_suite!(crate::tickets);
}
