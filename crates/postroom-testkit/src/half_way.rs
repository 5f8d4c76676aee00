//! Migrations that break off half-way, as on MariaDB, which commits at each statement.

#![expect(
    clippy::panic,
    reason = "a test harness: a migration that cannot be repeated has failed"
)]

use postroom::{Migration, migration};
use sea_orm::ConnectionTrait;

use crate::fresh::Fresh;

/// Breaks off each migration after each of its statements, and runs it again. Its statements end with their lines.
pub async fn goes_on(fresh: &Fresh, owner: &str, all: &[Migration]) {
    for (at, one) in all.iter().enumerate() {
        let statements: Vec<&str> = one.up.split_inclusive(";\n").collect();
        for count in 1..=statements.len() {
            run(fresh, one.name, statements.get(..count).unwrap_or_default()).await;
        }
        let known = all.get(..=at).unwrap_or_default();
        match migration::up(fresh.db(), owner, known).await {
            Ok(applied) => assert_eq!(applied.len(), 1, "{}", one.name),
            Err(error) => panic!("{}", error.report()),
        }
    }
}

async fn run(fresh: &Fresh, name: &str, statements: &[&str]) {
    for statement in statements {
        if let Err(error) = fresh.db().execute_unprepared(statement).await {
            panic!("{name} cannot be repeated: {statement}\n{error}");
        }
    }
}
