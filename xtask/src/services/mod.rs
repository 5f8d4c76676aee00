//! Databases and brokers for tests: provisioned, started in the background, stopped by pid.
//!
//! Everything listens on 127.0.0.1 only and keeps its files in one folder of its own. A service
//! starts from nothing and its data goes when it stops; its ports stay the same between starts.
//! A system-wide cluster of the same product is never touched.

mod daemon;
mod home;
mod kafka;
mod mariadb;
mod package;
mod pgbouncer;
mod place;
mod port;
mod postgres;
mod probe;
mod python;
mod rabbitmq;
mod redis;

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use serde_json::json;

use self::daemon::Process;
use self::home::Home;
use self::place::Place;
use crate::process;
use crate::workspace::Workspace;

/// Every service there is, all started when no name is given; one that needs another comes after it.
const ALL: &[&dyn Service] = &[
    &postgres::Postgres,
    &pgbouncer::PgBouncer,
    &mariadb::MariaDb,
    &redis::Redis,
    &rabbitmq::RabbitMq,
    &kafka::Kafka,
];

/// How long a service may take from its first process to its first answer.
const READY_LIMIT: Duration = Duration::from_secs(90);

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Provision and start; prints shell exports: eval "$(cargo xtask services up)".
    Up {
        /// postgres, pgbouncer, mariadb, redis, rabbitmq, kafka.
        names: Vec<String>,
    },
    /// Stop what `up` started, and drop its data; without names, everything.
    Down {
        /// As for `up`.
        names: Vec<String>,
    },
    /// What runs where.
    Status {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

/// A product the tests need. Its files are its own; a start is a start from nothing.
trait Service: Sync {
    fn about(&self) -> About;

    /// The Debian packages to install before it can start; none when its programs are there.
    fn missing(&self) -> Vec<&'static str>;

    /// Prepares empty data and starts the processes; does not wait for the first answer.
    fn start(&self, home: &Home) -> Result<Vec<Process>>;

    fn is_ready(&self, home: &Home) -> bool;

    /// What tests connect to.
    fn url(&self, home: &Home) -> String;
}

/// What is fixed about a service.
struct About {
    name: &'static str,
    /// The environment variable its address goes by.
    variable: &'static str,
    /// Who runs it when we are root.
    user: Option<&'static str>,
    ports: usize,
    /// The signal that makes it stop at once and cleanly.
    stop: &'static str,
    needs: Option<&'static str>,
}

/// Services for the length of a run: the ones it had to start stop when this is dropped.
pub(crate) struct Lease {
    place: Place,
    started: Vec<&'static dyn Service>,
    variables: Vec<(String, String)>,
}

impl Lease {
    /// Starts the default services, but for those whose address the environment already gives.
    pub(crate) fn take(workspace: &Workspace) -> Result<Self> {
        let place = Place::of(workspace)?;
        let wanted = not_given(&place)?;
        let mut lease = Self {
            place,
            started: Vec::new(),
            variables: Vec::new(),
        };
        up(&lease.place, &wanted, &mut lease.started)?;
        lease.variables = exports(&lease.place, &wanted)?;
        // What the environment says stays, but for an address of ours that an earlier start left there.
        let is_ours = |name: &str| wanted.iter().any(|service| service.about().variable == name);
        lease
            .variables
            .retain(|(name, _)| is_ours(name) || env::var_os(name).is_none());
        Ok(lease)
    }

    /// The environment tests find the services by.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Err(error) = down(&self.place, &self.started) {
            eprintln!("error: stop the services: {error:#}");
        }
    }
}

pub(crate) fn run(workspace: &Workspace, verb: Verb) -> Result<ExitCode> {
    let place = Place::of(workspace)?;
    match verb {
        Verb::Up { names } => {
            let services = if names.is_empty() {
                ALL.to_vec()
            } else {
                select(&names)?
            };
            up(&place, &services, &mut Vec::new())?;
            let exports = exports(&place, &services)?;
            print(
                exports
                    .iter()
                    .map(|(name, value)| format!("export {name}={}", quote(value))),
            )?;
        }
        Verb::Down { names } => {
            let services = if names.is_empty() {
                ALL.to_vec()
            } else {
                select(&names)?
            };
            down(&place, &services)?;
            if names.is_empty() {
                place.drop_scratch()?;
            }
        }
        Verb::Status { json } => status(&place, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The named services, in the order in which they can start.
fn select(names: &[String]) -> Result<Vec<&'static dyn Service>> {
    for name in names {
        if !ALL.iter().any(|service| service.about().name == name) {
            let known: Vec<_> = ALL.iter().map(|service| service.about().name).collect();
            bail!("there is no service {name}; there are {}", known.join(", "));
        }
    }
    Ok(ALL
        .iter()
        .copied()
        .filter(|service| names.iter().any(|name| name == service.about().name))
        .collect())
}

/// The default services whose address the environment does not give.
fn not_given(place: &Place) -> Result<Vec<&'static dyn Service>> {
    let mut wanted = Vec::new();
    let mut given = Vec::new();
    for &service in ALL {
        let about = service.about();
        if is_given(place, service)? {
            eprintln!("{}: as {} says", about.name, about.variable);
            given.push(about.name);
        } else if about.needs.is_some_and(|need| given.contains(&need)) {
            // Ours would stand in front of our own server, and the tests would talk to two.
            bail!(
                "{} is not set, but the address of what it needs is: set both or none",
                about.variable
            );
        } else {
            wanted.push(service);
        }
    }
    Ok(wanted)
}

/// Whether the environment gives an address that is not our own service's.
fn is_given(place: &Place, service: &dyn Service) -> Result<bool> {
    let about = service.about();
    let Some(given) = env::var_os(about.variable) else {
        return Ok(false);
    };
    let home = Home::open(place, &about)?;
    Ok(home.ports.len() != about.ports || given.to_string_lossy() != service.url(&home))
}

/// Starts what does not run yet, and what that needs; `started` grows with each start.
fn up(place: &Place, wanted: &[&'static dyn Service], started: &mut Vec<&'static dyn Service>) -> Result<()> {
    let services = with_needs(wanted);
    let _lock = place.lock()?;
    let missing = services.iter().flat_map(|service| service.missing());
    package::install(missing.chain(python::missing()).collect())?;
    for service in services {
        let about = service.about();
        let home = Home::open(place, &about)?;
        if home.is_running() {
            eprintln!("{}: runs already", about.name);
            continue;
        }
        let begun = Instant::now();
        started.push(service);
        start(place, service, home).with_context(|| format!("start {}", about.name))?;
        eprintln!("{}: up in {:.1} s", about.name, begun.elapsed().as_secs_f64());
    }
    place.make_scratch()
}

/// The services and what they need, in the order in which they can start.
fn with_needs(wanted: &[&'static dyn Service]) -> Vec<&'static dyn Service> {
    let is_wanted = |name: &str| wanted.iter().any(|service| service.about().name == name);
    let is_needed = |name: &str| wanted.iter().any(|service| service.about().needs == Some(name));
    ALL.iter()
        .copied()
        .filter(|service| is_wanted(service.about().name) || is_needed(service.about().name))
        .collect()
}

fn start(place: &Place, service: &dyn Service, mut home: Home) -> Result<()> {
    let about = service.about();
    home.stop(about.stop)?;
    home.ports = port::choose(&home.ports, place.first_port(about.name), about.ports, port::is_free)?;
    home.create()?;
    home.processes = service.start(&home)?;
    home.save()?;
    let mut answers = false;
    process::wait_until(READY_LIMIT, || {
        answers = service.is_ready(&home);
        answers || !home.is_running() || process::is_interrupted()
    });
    if answers {
        return Ok(());
    }
    let reason = if process::is_interrupted() {
        "interrupted"
    } else {
        "it does not answer"
    };
    let log = home.log_end();
    home.stop(about.stop)?;
    bail!("{reason}; the end of its log:\n{log}");
}

fn down(place: &Place, services: &[&'static dyn Service]) -> Result<()> {
    let _lock = place.lock()?;
    for service in services.iter().rev() {
        let about = service.about();
        let mut home = Home::open(place, &about)?;
        let was_running = home.is_running();
        home.stop(about.stop).with_context(|| format!("stop {}", about.name))?;
        if was_running {
            eprintln!("{}: stopped", about.name);
        }
    }
    Ok(())
}

/// What a shell, or a test process, must know to use the services.
fn exports(place: &Place, services: &[&'static dyn Service]) -> Result<Vec<(String, String)>> {
    let mut exports = Vec::new();
    for service in with_needs(services) {
        let about = service.about();
        let home = Home::open(place, &about)?;
        exports.push((about.variable.to_owned(), service.url(&home)));
    }
    // Tests that restart a database or broker run one of their own.
    let programs = [
        ("POSTROOM_TEST_POSTGRES_BIN", postgres::programs()),
        ("POSTROOM_TEST_MARIADB_BIN", process::find("mariadbd")),
        ("POSTROOM_TEST_REDIS_BIN", process::find("redis-server")),
        ("POSTROOM_TEST_RABBITMQ_BIN", rabbitmq::program()),
        ("POSTROOM_TEST_KAFKA_JARS", Some(kafka::jars(place)?)),
    ];
    for (variable, path) in programs {
        exports.extend(path.map(|path| (variable.to_owned(), path.display().to_string())));
    }
    if let Some(program) = python::program() {
        exports.push(("POSTROOM_TEST_PYTHON".to_owned(), program.to_owned()));
    }
    exports.push((
        "POSTROOM_TEST_SERVICES_DIR".to_owned(),
        place.scratch().display().to_string(),
    ));
    Ok(exports)
}

fn status(place: &Place, as_json: bool) -> Result<()> {
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    for service in ALL {
        let about = service.about();
        let home = Home::open(place, &about)?;
        let state = match (home.is_running(), service.is_ready(&home)) {
            (false, _) => "stopped",
            (true, false) => "no answer",
            (true, true) => "ready",
        };
        let pids: Vec<u32> = home.processes.iter().map(|process| process.pid).collect();
        let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let url = home.is_running().then(|| service.url(&home));
        lines.push(format!(
            "{:<10} {state:<10} {list:<14} {}",
            about.name,
            url.as_deref().unwrap_or("-")
        ));
        rows.push(json!({ "name": about.name, "state": state, "pids": pids, "url": url, "dir": home.dir }));
    }
    if as_json {
        return print([format!("{:#}", json!(rows))]);
    }
    print(lines)
}

/// Lines for stdout in one piece; a reader who left is an error, not a panic.
fn print(lines: impl IntoIterator<Item = String>) -> Result<()> {
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    io::stdout().write_all(text.as_bytes()).context("write the answer")
}

/// Quotes a value for a POSIX shell when it needs it.
fn quote(value: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@=%".contains(letter);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{ALL, quote, select, with_needs};

    #[test]
    fn what_a_service_needs_starts_before_it() {
        for service in ALL {
            let order: Vec<_> = with_needs(&[*service])
                .iter()
                .map(|service| service.about().name)
                .collect();
            assert_eq!(order.last(), Some(&service.about().name));
            assert_eq!(order.len(), 1 + usize::from(service.about().needs.is_some()));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let Err(error) = select(&["oracle".to_owned()]) else {
            panic!("oracle was accepted")
        };
        assert!(error.to_string().contains("postgres, pgbouncer, mariadb"), "{error}");
    }

    #[test]
    fn a_value_is_quoted_only_when_a_shell_would_split_it() {
        assert_eq!(
            quote("postgres://postgres@127.0.0.1:2/postgres"),
            "postgres://postgres@127.0.0.1:2/postgres"
        );
        assert_eq!(quote("/with space/it's"), r"'/with space/it'\''s'");
    }
}
