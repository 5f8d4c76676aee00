//! The arrows of the house: which crate may know which other. Everything points to `postroom`, which knows none.

use crate::workspace::Crate;

/// Who may depend on whom, by kind of crate. What is not listed here knows `postroom` alone.
fn may_know(crate_name: &str, other: &str) -> bool {
    let is_store = matches!(other, "postroom-postgres" | "postroom-mysql" | "postroom-sqlite");
    match crate_name {
        "postroom" | "xtask" => false,
        // The binary wires everything together.
        "postroomd" => other != "xtask",
        // The proof runs on every store, puts modules on a stage, and makes topics for them if asked.
        "postroom-testkit" => matches!(other, "postroom" | "postroom-host" | "postroom-kafka") || is_store,
        // A module is hosted; somebody's own service brings its store.
        "hello" | "ledger" | "commerce" | "umbra" => matches!(other, "postroom" | "postroom-host"),
        "embed" | "embed-seaorm" | "embed-sqlite" => other == "postroom" || is_store,
        _ => other == "postroom",
    }
}

/// Arrows that point where they must not. What only tests use may point anywhere.
pub(crate) fn problems(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for from in crates {
        for to in crates {
            let is_known = from.dependencies.contains(&to.name.replace('-', "_"));
            if is_known && !may_know(&from.name, &to.name) {
                problems.push(format!("{} must not depend on {}", from.name, to.name));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::workspace::Crate;

    #[test]
    fn an_arrow_that_points_outward_is_found() {
        let package = |name: &str, dependencies: &[&str]| Crate {
            name: name.to_owned(),
            folder: name.into(),
            dependencies: dependencies.iter().map(|name| name.replace('-', "_")).collect(),
        };
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
    }
}
