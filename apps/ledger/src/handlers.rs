//! What follows from a posting: the read models, the audit log, and a watch over the numbers.

use postroom::{Event, Result, Tx};

use crate::domain::Arrival;
use crate::events::Movement;
use crate::tables::{audit, balance, portfolio, sequence};

/// Missing numbers that are noted one by one; beyond that the log line must do.
const MISSING_MAX: usize = 1_000;

/// `ledger-balances`: what each account holds.
pub(crate) async fn show_balance(tx: &mut Tx, event: &Event) -> Result<()> {
    balance::upsert(tx, &event.decode()?).await
}

/// `ledger-portfolios`: what each owner has, added up.
pub(crate) async fn add_to_portfolio(tx: &mut Tx, event: &Event) -> Result<()> {
    portfolio::add(tx, &event.decode()?).await
}

/// `ledger-audit`: what happened, for five years.
pub(crate) async fn write_audit(tx: &mut Tx, event: &Event) -> Result<()> {
    audit::append(tx, event, &event.decode()?).await
}

/// `ledger-sequence`: notes numbers that are missing or come twice. It does not fail on them: what came must not wait for what
/// did not, and the note stays until somebody has looked.
pub(crate) async fn watch_sequence(tx: &mut Tx, event: &Event) -> Result<()> {
    let Movement {
        account_id,
        sequence_number,
        ..
    } = event.decode()?;
    match Arrival::of(sequence_number, sequence::last(tx, &account_id).await?) {
        Arrival::InOrder => {}
        Arrival::Gap(missing) => {
            tracing::error!(
                account = account_id,
                first = missing.start(),
                last = missing.end(),
                "events of an account are missing"
            );
            for number in missing.take(MISSING_MAX) {
                sequence::note(tx, &account_id, number, "missing").await?;
            }
        }
        Arrival::Behind => return behind(tx, &account_id, sequence_number).await,
    }
    sequence::set_last(tx, &account_id, sequence_number).await
}

/// One that was missing has come, or one came twice under two event ids (the inbox drops the same event).
async fn behind(tx: &Tx, account_id: &str, number: i64) -> Result<()> {
    if !sequence::mend(tx, account_id, number).await? {
        tracing::error!(account = account_id, number, "an account's number came twice");
        sequence::note(tx, account_id, number, "repeated").await?;
    }
    Ok(())
}
