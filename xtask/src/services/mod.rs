//! Databases and brokers for tests: provisioned, started in the background, stopped by pid.
//!
//! Everything listens on 127.0.0.1 only and keeps its files in one folder of its own. A service
//! starts from nothing and its data goes when it stops; its ports stay the same between starts.
//! A system-wide cluster of the same product is never touched.

mod chromium;
mod daemon;
mod home;
mod kafka;
mod mariadb;
mod mysql;
mod package;
mod pgbouncer;
mod place;
mod port;
mod postgres;
mod probe;
mod python;
mod rabbitmq;
mod redis;
mod root;

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use serde_json::json;

use self::daemon::Process;
use self::home::Home;
use self::place::Place;
use self::root::Root;
use crate::process;
use crate::workspace::Workspace;

/// The services from this machine's packages, all started when no name is given; one that needs another comes after it.
const MACHINE: &[&dyn Service] = &[
    &postgres::Postgres {
        name: "postgres",
        release: None,
    },
    &pgbouncer::PgBouncer {
        name: "pgbouncer",
        release: None,
        server: "postgres",
    },
    &mariadb::MariaDb {
        name: "mariadb",
        release: None,
    },
    &redis::Redis {
        name: "redis",
        release: None,
        program: "redis-server",
        user: "redis",
    },
    &rabbitmq::RabbitMq {
        name: "rabbitmq",
        release: None,
    },
    &kafka::Kafka,
];

/// The same services as people run them today, from newer releases of Debian; the newest of a kind comes first.
const NEWER: &[&dyn Service] = &[
    &postgres::Postgres {
        name: "postgres18",
        release: SID,
    },
    &pgbouncer::PgBouncer {
        name: "pgbouncer18",
        release: SID,
        server: "postgres18",
    },
    &postgres::Postgres {
        name: "postgres17",
        release: TRIXIE,
    },
    &pgbouncer::PgBouncer {
        name: "pgbouncer17",
        release: TRIXIE,
        server: "postgres17",
    },
    &mysql::MySql {
        name: "mysql9",
        release: SID,
    },
    &mariadb::MariaDb {
        name: "mariadb11",
        release: TRIXIE,
    },
    &redis::Redis {
        name: "valkey9",
        release: SID,
        program: "valkey-server",
        user: "valkey",
    },
    &redis::Redis {
        name: "redis8",
        release: TRIXIE,
        program: "redis-server",
        user: "redis",
    },
    &rabbitmq::RabbitMq {
        name: "rabbitmq4",
        release: SID,
    },
];

/// Debian's rolling release, and its stable one.
const SID: Option<&str> = Some("sid");
const TRIXIE: Option<&str> = Some("trixie");

/// How long a service may take from its first process to its first answer.
const READY_LIMIT: Duration = Duration::from_secs(90);

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Provision and start; prints shell exports: eval "$(cargo xtask services up)".
    Up {
        /// postgres, pgbouncer, mariadb, redis, rabbitmq, kafka; with --newer postgres18, pgbouncer18, postgres17,
        /// pgbouncer17, mysql9, mariadb11, valkey9, redis8, rabbitmq4.
        names: Vec<String>,
        /// Newer servers than this machine has, in a Debian of their own (needs root).
        #[arg(long)]
        newer: bool,
    },
    /// Stop what `up` started, and drop its data; without names, everything.
    Down {
        /// As for `up`.
        names: Vec<String>,
        /// Only newer servers.
        #[arg(long)]
        newer: bool,
    },
    /// Print the running services and their addresses.
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
    fn missing(&self, root: &Root) -> Vec<&'static str>;

    /// Prepares empty data and starts the processes; does not wait for the first answer.
    fn start(&self, home: &Home) -> Result<Vec<Process>>;

    fn is_ready(&self, home: &Home) -> bool;

    /// The address that tests connect to.
    fn url(&self, home: &Home) -> String;

    /// Another variable that tests need for it, and its value.
    fn variable(&self, _home: &Home) -> Option<(String, String)> {
        None
    }
}

/// The constant properties of a service.
struct About {
    name: &'static str,
    /// The release of Debian that its programs come from, unless they are this machine's.
    release: Option<&'static str>,
    /// The environment variable that holds its address.
    variable: &'static str,
    /// The user that runs it when xtask runs as root.
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
        lease.variables = addresses(&lease.place, &wanted)?;
        lease.variables.extend(programs(&lease.place)?);
        // A variable of the environment stays, except the address of a service of this lease, which an earlier start may have set.
        let is_ours = |name: &str| wanted.iter().any(|service| service.about().variable == name);
        lease
            .variables
            .retain(|(name, _)| is_ours(name) || env::var_os(name).is_none());
        Ok(lease)
    }

    /// Starts newer servers, by name.
    pub(crate) fn newer(workspace: &Workspace, names: &[&str]) -> Result<Self> {
        let wanted = select(names, NEWER)?;
        let mut lease = Self {
            place: Place::of(workspace)?,
            started: Vec::new(),
            variables: Vec::new(),
        };
        up(&lease.place, &wanted, &mut lease.started)?;
        lease.variables = addresses(&lease.place, &wanted)?;
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
        Verb::Up { names, newer } => {
            let services = select(&names, if newer { NEWER } else { MACHINE })?;
            up(&place, &services, &mut Vec::new())?;
            print(shell(
                addresses(&place, &services)?.into_iter().chain(programs(&place)?),
            ))?;
        }
        Verb::Down { names, newer } => {
            let services = select(&names, &if newer { NEWER.to_vec() } else { all() })?;
            down(&place, &services)?;
            if names.is_empty() && !newer {
                place.drop_scratch()?;
            }
        }
        Verb::Status { json } => status(&place, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn all() -> Vec<&'static dyn Service> {
    [MACHINE, NEWER].concat()
}

/// The named ones of these services, or all, in the order in which they can start.
fn select(names: &[impl AsRef<str>], from: &[&'static dyn Service]) -> Result<Vec<&'static dyn Service>> {
    for name in names.iter().map(AsRef::as_ref) {
        if !from.iter().any(|service| service.about().name == name) {
            let known: Vec<_> = from.iter().map(|service| service.about().name).collect();
            bail!("there is no service {name}; there are {}", known.join(", "));
        }
    }
    let is_named = |name: &str| names.is_empty() || names.iter().any(|named| named.as_ref() == name);
    let named = from.iter().filter(|service| is_named(service.about().name));
    Ok(named.copied().collect())
}

/// The default services whose address the environment does not give.
fn not_given(place: &Place) -> Result<Vec<&'static dyn Service>> {
    let mut wanted = Vec::new();
    let mut given = Vec::new();
    for &service in MACHINE {
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
    install(place, &services)?;
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

/// Installs the packages that are missing: in this machine, and in the newer Debians that are wanted.
fn install(place: &Place, services: &[&'static dyn Service]) -> Result<()> {
    for release in [None, TRIXIE, SID] {
        let wanted = services.iter().filter(|service| service.about().release == release);
        let mut roots = wanted.clone().map(|service| place.programs(&service.about()));
        let Some(root) = roots.next() else {
            continue;
        };
        let missing = wanted.flat_map(|service| service.missing(&root));
        let tools = python::missing().into_iter().chain(chromium::missing());
        let tools = tools.filter(|_| release.is_none());
        root.install(missing.chain(tools).collect())?;
    }
    Ok(())
}

/// The services and what they need, in the order in which they can start.
fn with_needs(wanted: &[&'static dyn Service]) -> Vec<&'static dyn Service> {
    let is_wanted = |name: &str| wanted.iter().any(|service| service.about().name == name);
    let is_needed = |name: &str| wanted.iter().any(|service| service.about().needs == Some(name));
    all()
        .into_iter()
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

/// Where the services are, and what they need.
fn addresses(place: &Place, services: &[&'static dyn Service]) -> Result<Vec<(String, String)>> {
    let mut addresses = Vec::new();
    for service in with_needs(services) {
        let about = service.about();
        let home = Home::open(place, &about)?;
        addresses.push((about.variable.to_owned(), service.url(&home)));
        addresses.extend(service.variable(&home));
    }
    Ok(addresses)
}

/// The other variables that tests need. Tests that restart a database or broker run their own, from this machine's programs.
fn programs(place: &Place) -> Result<Vec<(String, String)>> {
    let programs = [
        ("POSTROOM_TEST_POSTGRES_BIN", postgres::programs(&Root::Machine)),
        ("POSTROOM_TEST_MARIADB_BIN", process::find("mariadbd")),
        ("POSTROOM_TEST_REDIS_BIN", process::find("redis-server")),
        ("POSTROOM_TEST_RABBITMQ_BIN", rabbitmq::program(&Root::Machine)),
        ("POSTROOM_TEST_KAFKA_JARS", Some(kafka::jars(place)?)),
        ("POSTROOM_TEST_PYTHON", python::program().map(PathBuf::from)),
        (chromium::VARIABLE, chromium::program()),
        ("POSTROOM_TEST_SERVICES_DIR", Some(place.scratch())),
    ];
    let found = programs.into_iter().filter_map(|(name, path)| Some((name, path?)));
    Ok(found
        .map(|(name, path)| (name.to_owned(), path.display().to_string()))
        .collect())
}

/// Exports for a shell. Of several servers with one variable the first counts; the others are comments.
fn shell(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut exported = BTreeSet::new();
    let line = |(name, value): (String, String)| {
        let line = format!("export {name}={}", quote(&value));
        if exported.insert(name) {
            line
        } else {
            format!("# {line}")
        }
    };
    variables.map(line).collect()
}

fn status(place: &Place, as_json: bool) -> Result<()> {
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    for service in all() {
        let about = service.about();
        let home = Home::open(place, &about)?;
        if about.release.is_some() && !home.dir.exists() {
            continue;
        }
        let state = match home.is_running() {
            false => "stopped",
            true if service.is_ready(&home) => "ready",
            true => "no answer",
        };
        let pids: Vec<u32> = home.processes.iter().map(|process| process.pid).collect();
        let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let url = home.is_running().then(|| service.url(&home));
        lines.push(format!(
            "{:<11} {state:<10} {list:<14} {}",
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
    use super::{MACHINE, NEWER, all, quote, select, shell, with_needs};

    #[test]
    fn what_a_service_needs_starts_before_it() {
        for service in all() {
            let order: Vec<_> = with_needs(&[service])
                .iter()
                .map(|service| service.about().name)
                .collect();
            assert_eq!(order.last(), Some(&service.about().name));
            assert_eq!(order.len(), 1 + usize::from(service.about().needs.is_some()));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let Err(error) = select(&["oracle"], MACHINE) else {
            panic!("oracle was accepted")
        };
        assert!(error.to_string().contains("postgres, pgbouncer, mariadb"), "{error}");
    }

    #[test]
    fn newer_servers_have_names_and_releases_of_their_own() {
        for service in NEWER {
            let about = service.about();
            assert!(about.release.is_some(), "{}", about.name);
            assert!(select(&[about.name], MACHINE).is_err(), "{}", about.name);
        }
    }

    #[test]
    fn the_first_of_several_servers_with_one_variable_is_exported() {
        let variables = [("URL", "a"), ("URL", "b"), ("BIN", "c")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            shell(variables.into_iter()),
            ["export URL=a", "# export URL=b", "export BIN=c"]
        );
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
