//! Reads the tables directly and checks their invariants: those that always hold, and those that hold when all events are
//! delivered.

#![expect(clippy::unwrap_used, reason = "a test harness: a panic fails the test")]

use std::collections::{BTreeMap, HashMap};

use postroom::{Entry, Inspect, Position};
use postroom_testkit::Fresh;
use postroom_testkit::wait::until;
use sea_orm::{ConnectionTrait, QueryResult, Statement, TryGetable};

use ledger::Movement;

/// The rows of a query.
pub(crate) async fn rows(store: &dyn Inspect, sql: &str) -> Vec<QueryResult> {
    let db = store.db();
    let statement = Statement::from_string(db.get_database_backend(), sql);
    db.query_all_raw(statement).await.unwrap()
}

pub(crate) fn read<T: TryGetable>(row: &QueryResult, column: &str) -> T {
    row.try_get("", column).unwrap()
}

/// A balance that may exceed 64 bits: that of a clearing account.
pub(crate) fn whole(row: &QueryResult, column: &str) -> i128 {
    let (low, high): (i64, i64) = (read(row, column), read(row, &format!("{column}_high")));
    i128::from(high) * 1_000_000_000_000_000_000 + i128::from(low)
}

/// The balance and the number of postings of each account.
type Standing = BTreeMap<String, (i128, i64)>;

async fn standing(store: &dyn Inspect, table: &str, balance: &str, count: &str) -> Standing {
    let rows = rows(
        store,
        &format!("select account_id, {balance} as balance, {count} as number from {table}"),
    )
    .await;
    let balance = |row: &QueryResult| i128::from(read::<i64>(row, "balance"));
    rows.iter()
        .map(|row| (read(row, "account_id"), (balance(row), read(row, "number"))))
        .collect()
}

/// The same of the ledger itself.
async fn accounts(store: &dyn Inspect) -> Standing {
    let rows = rows(
        store,
        "select account_id, balance, balance_high, version from ledger_account",
    )
    .await;
    rows.iter()
        .map(|row| (read(row, "account_id"), (whole(row, "balance"), read(row, "version"))))
        .collect()
}

/// All journal entries, by account and sequence number: amount and transaction.
async fn journal(store: &dyn Inspect, table: &str) -> BTreeMap<(String, i64), (i64, String)> {
    let rows = rows(store, &format!("select * from {table}")).await;
    let entry = |row: &QueryResult| {
        let at = (read(row, "account_id"), read(row, "sequence_number"));
        (at, (read(row, "amount"), read(row, "transaction_id")))
    };
    rows.iter().map(entry).collect()
}

/// Checks the ledger itself: entries sum to zero, each balance is the sum of its entries, sequence numbers have no gaps, and
/// each customer entry has one event.
pub(crate) async fn balance(store: &dyn Inspect) {
    let accounts = accounts(store).await;
    let journal = journal(store, "ledger_entry").await;
    let mut transactions: HashMap<&str, Vec<i64>> = HashMap::new();
    let mut sums: BTreeMap<&str, (i128, i64)> = BTreeMap::new();
    for ((account, number), (amount, transaction)) in &journal {
        transactions.entry(transaction).or_default().push(*amount);
        let sum = sums.entry(account).or_default();
        *sum = (sum.0 + i128::from(*amount), sum.1 + 1);
        assert_eq!(sum.1, *number, "a gap in the numbers of {account}");
    }
    for (transaction, amounts) in &transactions {
        assert_eq!((amounts.len(), amounts.iter().sum::<i64>()), (2, 0), "{transaction}");
    }
    for (account, stands) in &accounts {
        let sum = sums.get(account.as_str()).copied().unwrap_or_default();
        assert_eq!(*stands, sum, "account {account} and its entries");
        assert!(
            stands.0 >= 0 || account.starts_with("clearing-"),
            "{account} is overdrawn"
        );
    }
    assert_eq!(
        accounts.values().map(|(balance, _)| balance).sum::<i128>(),
        0,
        "all money together"
    );
    let count = rows(store, "select transaction_id from ledger_transaction").await.len();
    assert_eq!(count, transactions.len(), "transactions with entries");
}

/// Checks that the log holds exactly one event for each customer entry, in order for each account.
pub(crate) async fn events(store: &dyn Inspect) {
    store.pulse().await.unwrap();
    let mut told: BTreeMap<(String, i64), (i64, String)> = BTreeMap::new();
    let mut last: HashMap<String, i64> = HashMap::new();
    for entry in log(store).await {
        let movement: Movement = entry.event.decode().unwrap();
        let before = last.insert(movement.account_id.clone(), movement.sequence_number);
        assert_eq!(movement.sequence_number, before.unwrap_or(0) + 1, "{movement:?}");
        let at = (movement.account_id, movement.sequence_number);
        told.insert(at, (movement.amount, movement.transaction_id.to_string()));
    }
    let mut journal = journal(store, "ledger_entry").await;
    journal.retain(|(account, _), _| !account.starts_with("clearing-"));
    assert_eq!(told, journal, "events and entries");
}

async fn log(store: &dyn Inspect) -> Vec<Entry> {
    let (mut position, mut entries) = (Position::START, Vec::new());
    loop {
        let page = store.read(position, 1_000).await.unwrap();
        entries.extend(page.entries.iter().cloned());
        if page.next == position {
            return entries;
        }
        position = page.next;
    }
}

/// The first difference between the ledger and its read models, if any.
async fn difference(store: &dyn Inspect) -> Option<String> {
    let mut accounts = accounts(store).await;
    accounts.retain(|account, (_, version)| !account.starts_with("clearing-") && *version > 0);
    for (table, number) in [
        ("ledger_balance", "sequence_number"),
        ("ledger_portfolio", "transactions"),
    ] {
        let shown = standing(store, table, "balance", number).await;
        if shown != accounts {
            return Some(format!("{table} shows {shown:?}, the ledger {accounts:?}"));
        }
    }
    let heard = standing(store, "ledger_sequence", "sequence_number", "sequence_number").await;
    if heard
        .iter()
        .map(|(id, (_, number))| (id, *number))
        .ne(accounts.iter().map(|(id, (_, version))| (id, *version)))
    {
        return Some(format!("the sequence check has {heard:?}, the ledger {accounts:?}"));
    }
    let (audit, mut journal) = (
        journal(store, "ledger_audit").await,
        journal(store, "ledger_entry").await,
    );
    journal.retain(|(account, _), _| !account.starts_with("clearing-"));
    (audit != journal).then(|| format!("{} rows of audit, {} entries", audit.len(), journal.len()))
}

/// Waits until all events are delivered, and checks all tables.
pub(crate) async fn settle(fresh: &Fresh) {
    let store = &fresh.second().await;
    until("the read models match the ledger", || async {
        difference(&**store).await.is_none()
    })
    .await;
    balance(&**store).await;
    events(&**store).await;
    let odd = rows(&**store, "select account_id, sequence_number, kind from ledger_anomaly").await;
    assert!(odd.is_empty(), "{} anomalies", odd.len());
    let dead = rows(&**store, &format!("select route, error from {}", failed(&**store))).await;
    let dead: Vec<(String, String)> = dead
        .iter()
        .map(|row| (read(row, "route"), read(row, "error")))
        .collect();
    assert!(dead.is_empty(), "{dead:?}");
}

fn failed(store: &dyn Inspect) -> &'static str {
    match store.db().get_database_backend() {
        sea_orm::DbBackend::Postgres => "postroom.outbox_failed",
        _ => "postroom_outbox_failed",
    }
}
