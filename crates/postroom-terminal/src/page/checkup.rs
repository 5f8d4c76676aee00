//! The checks of a store and of a broker that need no configuration: its tables, its server, its clock and settings, long
//! transactions, and the work on its routes; whether a broker answers, and what about it can cost messages.

use postroom::operate::{self, RouteStatus, SettingReport, Status};
use postroom::{Broker, Inspect, Migration, Risk, migration};

use super::finding::Finding;
use crate::text;

/// Clocks may differ by this much before somebody should look.
const SKEW_S_MAX: f64 = 1.0;
/// A transaction that is open longer than this delays its own events, and retention.
const OPEN_S_MAX: f64 = 60.0;
/// The next step when the database refuses a simple question.
const QUERY_DENIED: &str = "check that the user may query the database";

/// The version of its server.
pub async fn version(store: &dyn Inspect) -> Finding {
    match store.version().await {
        Ok(version) => Finding::ok("version", version),
        Err(error) => Finding::fail("version", error.report(), QUERY_DENIED),
    }
}

/// The tables of an owner, which these migrations make.
pub async fn tables(store: &dyn Inspect, owner: &str, migrations: &[Migration]) -> Finding {
    let what = format!("tables of {owner}");
    match migration::pending(store.db(), owner, migrations).await {
        Ok(pending) if pending.is_empty() => {
            Finding::ok(what, format!("migrations: {0} of {0} applied", migrations.len()))
        }
        Ok(pending) => {
            let says = format!("migrations: {} of {} missing", pending.len(), migrations.len());
            Finding::fail(what, says, "run `postroom migrate`")
        }
        Err(error) => {
            let next = match error.next_steps() {
                [] => "run `postroom migrate` with a user that may create tables".to_owned(),
                steps => text::next(steps),
            };
            Finding::fail(what, error.report(), next)
        }
    }
}

/// A broker, by its name in the configuration, and the groups that it feeds, each with its topics.
pub async fn broker(name: &str, broker: &dyn Broker, groups: &[(String, Vec<String>)]) -> Vec<Finding> {
    let risks = match operate::broker_risks(broker, groups).await {
        Ok(risks) => risks,
        Err(error) => {
            let next = format!("check the address in [brokers.{name}], the server, the user and its password");
            return vec![Finding::fail(name, error.report(), next)];
        }
    };
    let answers = Finding::ok(name, format!("{} answers", broker.name()));
    let warning = |Risk { says, next }| Finding::warn(name, says, next);
    std::iter::once(answers).chain(risks.into_iter().map(warning)).collect()
}

/// Its clock and its settings.
pub async fn server(store: &dyn Inspect) -> Vec<Finding> {
    let mut findings = vec![skew(store).await];
    findings.extend(settings(store).await);
    findings
}

/// Long transactions, and whether every route is worked and reaches its destination. The store must have its tables.
pub async fn work(store: &dyn Inspect) -> Vec<Finding> {
    let mut findings = vec![transactions(store).await];
    findings.extend(routes(store).await);
    findings
}

/// The database's clock against ours.
async fn skew(store: &dyn Inspect) -> Finding {
    let skew = match operate::clock_skew(store).await {
        Ok(skew) => skew.as_seconds_f64().abs(),
        Err(error) => return Finding::fail("clock", error.report(), QUERY_DENIED),
    };
    let says = format!("the database's clock differs by {:.0} ms from ours", skew * 1000.0);
    match skew > SKEW_S_MAX {
        true => Finding::warn(
            "clock",
            says,
            "synchronise both with NTP; leases are safe, ages and occurred_at are off",
        ),
        false => Finding::ok("clock", says),
    }
}

async fn settings(store: &dyn Inspect) -> Vec<Finding> {
    let finding = |SettingReport { name, value, advice }| match (value, advice) {
        (Ok(value), None) => Finding::ok(name, value),
        (Ok(value), Some(advice)) => Finding::warn(name, value, advice),
        (Err(error), _) => Finding::warn(name, error.report(), "check that the user may read settings"),
    };
    operate::settings(store).await.into_iter().map(finding).collect()
}

async fn transactions(store: &dyn Inspect) -> Finding {
    let open = match store.open_transactions().await {
        Ok(open) => open,
        Err(error) => return Finding::warn("transactions", error.report(), "let the user see other sessions"),
    };
    let old: Vec<String> = open
        .iter()
        .filter(|transaction| transaction.age_s > OPEN_S_MAX)
        .map(|transaction| format!("{} since {:.0} s", transaction.session, transaction.age_s))
        .collect();
    let hidden = store.hidden().await.ok().flatten();
    match (old.is_empty(), hidden) {
        (true, Some(hidden)) => Finding::warn("transactions", text::hidden(&hidden), text::next(&[hidden.next_step()])),
        (true, None) => Finding::ok("transactions", format!("none is open for more than {OPEN_S_MAX:.0} s")),
        (false, _) => Finding::warn(
            "transactions",
            format!("open for long: {}", old.join(", ")),
            "commit or end these sessions",
        ),
    }
}

async fn routes(store: &dyn Inspect) -> Vec<Finding> {
    let status = match operate::status(store).await {
        Ok(status) => status,
        Err(error) => return vec![Finding::fail("routes", error.report(), "see the error")],
    };
    let down = |route: &RouteStatus| {
        let reason = route.reason_of_outage()?;
        let says = format!("{} cannot go on: {}", route.route, route.down.as_ref()?);
        Some(Finding::warn("reach", says, text::next(&reason.next_steps())))
    };
    let mut findings = vec![worked(&status)];
    findings.extend(status.routes.iter().filter_map(down));
    findings
}

fn worked(status: &Status) -> Finding {
    let idle: Vec<&str> = status
        .routes
        .iter()
        .filter(|route| !route.is_leased)
        .map(|route| route.route.as_str())
        .collect();
    match (status.routes.len(), idle.is_empty()) {
        (0, _) => Finding::warn(
            "routes",
            "there are none yet",
            "start a relay: `postroom up` or `postroom serve --roles relay`",
        ),
        (1, true) => Finding::ok("routes", "the only route has a relay"),
        (count, true) => Finding::ok("routes", format!("all {count} have a relay")),
        (_, false) => Finding::warn(
            "routes",
            format!("no relay delivers {}", idle.join(", ")),
            "start a relay that has them: `postroom up` or `postroom serve --roles relay`",
        ),
    }
}
