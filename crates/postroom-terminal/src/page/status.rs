//! Where every route stands, and the jobs.

use std::time::Instant;

use postroom::operate::{RouteStatus, Status, counted};

use crate::age::{age, with_date};
use crate::board::{self, Meter};
use crate::listing::Listing;
use crate::output::{self, Paint};

/// The lines of the whole platform. A meter adds how fast each route delivers.
pub fn lines(status: &Status, meter: Option<&mut Meter>) -> Vec<String> {
    let (width, paint) = (output::columns(), Paint::detect());
    let mut lines = routes(&status.routes, meter);
    if status.routes.is_empty() {
        return lines;
    }
    lines.push(String::new());
    lines.extend(jobs(status).lines(width, paint));
    lines.extend(scheduled(status));
    lines
}

/// The lines of one route of it.
pub fn route_lines(status: &Status, meter: Option<&mut Meter>) -> Vec<String> {
    let mut lines = routes(&status.routes, meter);
    lines.extend(scheduled(status));
    lines
}

fn routes(routes: &[RouteStatus], meter: Option<&mut Meter>) -> Vec<String> {
    if routes.is_empty() {
        return vec!["no routes yet: a relay registers them when it starts (`postroom up`)".to_owned()];
    }
    let mut rows = board::rows(routes);
    if let Some(meter) = meter {
        meter.measure(&mut rows, Instant::now());
    }
    board::listing(&rows).lines(output::columns(), Paint::detect())
}

/// How many events wait for their time, if any do.
fn scheduled(status: &Status) -> Vec<String> {
    match status.scheduled {
        0 => Vec::new(),
        events => vec![
            String::new(),
            counted(events, "event waits for its time", "events wait for their time"),
        ],
    }
}

fn jobs(status: &Status) -> Listing {
    let mut listing = Listing::new(&["job", "#runs", "#failures", "last run", "#took", "last error"]);
    for job in &status.jobs {
        let took = job.last_ms.and_then(|ms| u32::try_from(ms).ok());
        listing.row([
            job.name.as_str().into(),
            job.runs.into(),
            job.failures.into(),
            job.last_at.map(with_date).unwrap_or_default().into(),
            took.map(|ms| age(f64::from(ms) / 1000.0)).unwrap_or_default().into(),
            job.last_error.as_deref().unwrap_or_default().into(),
        ]);
    }
    listing
}
