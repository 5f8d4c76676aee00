//! The allowed dependencies between crates. Every crate except xtask and `postroom-pii` may depend on `postroom`, which
//! depends on no other.

use crate::workspace::Crate;

/// Whether a crate may depend on another, by kind of crate. A crate that is not listed may depend on `postroom` only.
fn may_know(crate_name: &str, other: &str) -> bool {
    let is_store = matches!(other, "postroom-postgres" | "postroom-mysql" | "postroom-sqlite");
    let is_broker = matches!(other, "postroom-kafka" | "postroom-rabbitmq" | "postroom-redis");
    match crate_name {
        // The firewall knows documents and texts only.
        "postroom" | "postroom-pii" | "xtask" => false,
        // The binary wires everything together, and ships no test tools.
        "postroomd" => !matches!(other, "xtask" | "postroom-testkit"),
        // A bench measures each store through its driver, and each broker through its adapter and its own client. It refuses
        // the same stores as the proof, and serves modules to measure the check of a token, the collection of activity and streams.
        "postroom-bench" => {
            matches!(
                other,
                "postroom"
                    | "postroom-address"
                    | "postroom-host"
                    | "postroom-proof"
                    | "postroom-realtime"
                    | "postroom-activity"
                    | "tasteam"
                    | "tasteam-activity"
            ) || is_store
                || is_broker
        }
        // The suites run on every store, run modules on a stage, and create topics for them if asked.
        "postroom-testkit" => {
            matches!(
                other,
                "postroom"
                    | "postroom-access"
                    | "postroom-proof"
                    | "postroom-host"
                    | "postroom-kafka"
                    | "postroom-shared"
            ) || is_store
        }
        // The platform serves the metrics and the readiness that a service can also serve itself, checks its callers, and hands
        // modules what instances share.
        "postroom-host" => matches!(
            other,
            "postroom" | "postroom-access" | "postroom-monitor" | "postroom-shared"
        ),
        // It prints the answers of the engine, of a host's catalogue and of activity collection.
        "postroom-terminal" => matches!(other, "postroom" | "postroom-host" | "postroom-activity"),
        // Every store can be opened by its address. Brokers have options, which an address alone does not give.
        "postroom-address" => other == "postroom" || is_store,
        // State that instances share has its ports in a crate of its own.
        "postroom-redis" => matches!(other, "postroom" | "postroom-shared"),
        // A module that ships with the platform: it posts to sinks, and limits clients over all instances.
        "postroom-activity" => {
            matches!(
                other,
                "postroom" | "postroom-host" | "postroom-http" | "postroom-pii" | "postroom-shared"
            )
        }
        // Streams over the HTTP server of a process, with what instances share.
        "postroom-realtime" => matches!(other, "postroom" | "postroom-host" | "postroom-shared"),
        // It gives the members of its demonstration tokens, and its sockets check tokens of members.
        "community" => matches!(
            other,
            "postroom" | "postroom-access" | "postroom-host" | "postroom-realtime" | "postroom-shared"
        ),
        // A host runs a module; a service that embeds Postroom brings its own store.
        "hello" | "ledger" | "commerce" | "umbra" | "tasteam" => matches!(other, "postroom" | "postroom-host"),
        // Mappers know activity collection and the domain; neither of them knows the other.
        "tasteam-activity" => matches!(other, "postroom" | "postroom-host" | "postroom-activity" | "tasteam"),
        "embed" | "embed-seaorm" | "embed-sqlite" => other == "postroom" || is_store,
        _ => other == "postroom",
    }
}

/// The client libraries of brokers, each with the adapter that may use it. The bench may use all.
const CLIENTS: [(&str, &str); 3] = [
    ("rdkafka", "postroom-kafka"),
    ("lapin", "postroom-rabbitmq"),
    ("redis", "postroom-redis"),
];

/// The dependencies that are not allowed. Dependencies of tests are not checked.
pub(crate) fn problems(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for from in crates {
        for to in crates {
            let is_known = from.dependencies.contains(&to.name.replace('-', "_"));
            if is_known && !may_know(&from.name, &to.name) {
                problems.push(format!("{} must not depend on {}", from.name, to.name));
            }
        }
        for (client, adapter) in CLIENTS {
            let is_known = from.dependencies.iter().any(|name| name == client);
            if is_known && ![adapter, "postroom-bench"].contains(&from.name.as_str()) {
                problems.push(format!("{} must not depend on {client}", from.name));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::workspace::Crate;

    fn package(name: &str, dependencies: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            folder: name.into(),
            dependencies: dependencies.iter().map(|name| name.replace('-', "_")).collect(),
        }
    }

    #[test]
    fn a_client_of_a_broker_belongs_to_its_adapter_and_the_bench() {
        let check = |from: &str, expected: &[&str]| assert_eq!(problems(&[package(from, &["rdkafka"])]), expected);
        check("postroom-kafka", &[]);
        check("postroom-bench", &[]);
        check("postroomd", &["postroomd must not depend on rdkafka"]);
    }

    #[test]
    fn an_arrow_that_points_outward_is_found() {
        let check = |from: &str, to: &str, expected: &[&str]| {
            assert_eq!(
                problems(&[package(from, &[to]), package(to, &[])]),
                expected,
                "{from} → {to}"
            );
        };
        check("postroom-sqlite", "postroom", &[]);
        check(
            "postroom",
            "postroom-sqlite",
            &["postroom must not depend on postroom-sqlite"],
        );
        check(
            "postroom-mysql",
            "postroom-postgres",
            &["postroom-mysql must not depend on postroom-postgres"],
        );
        check(
            "postroom-host",
            "postroomd",
            &["postroom-host must not depend on postroomd"],
        );
        check("postroomd", "hello", &[]);
        check("postroom-testkit", "postroom-proof", &[]);
        check("postroom-bench", "postroom-kafka", &[]);
        check(
            "postroom-proof",
            "postroom-kafka",
            &["postroom-proof must not depend on postroom-kafka"],
        );
        check(
            "postroom-proof",
            "postroom-sqlite",
            &["postroom-proof must not depend on postroom-sqlite"],
        );
        check(
            "postroom-bench",
            "postroomd",
            &["postroom-bench must not depend on postroomd"],
        );
        check(
            "postroomd",
            "postroom-testkit",
            &["postroomd must not depend on postroom-testkit"],
        );
        check(
            "postroom-terminal",
            "postroomd",
            &["postroom-terminal must not depend on postroomd"],
        );
        check("postroom-terminal", "postroom-activity", &[]);
        check("postroom-address", "postroom-sqlite", &[]);
        check(
            "postroom-address",
            "postroom-redis",
            &["postroom-address must not depend on postroom-redis"],
        );
        check("postroomd", "postroom-pii", &[]);
        check(
            "postroom-pii",
            "postroom",
            &["postroom-pii must not depend on postroom"],
        );
        check("postroom-host", "postroom-monitor", &[]);
        check(
            "postroom-monitor",
            "postroom-host",
            &["postroom-monitor must not depend on postroom-host"],
        );
    }
}
