//! The event handlers: read models, audit log, and the check of the sequence numbers.

use postroom::{Event, Result, Tx};

use crate::domain::Arrival;
use crate::events::Movement;
use crate::tables::{audit, balance, portfolio, sequence};

/// Maximum number of missing sequence numbers to store per gap. The log line names the whole gap.
const MISSING_MAX: usize = 1_000;

/// `ledger-balances`: stores the balance of each account.
pub(crate) async fn show_balance(tx: &mut Tx, event: &Event) -> Result<()> {
    balance::upsert(tx, &event.decode()?).await
}

/// `ledger-portfolios`: adds up the balances of each owner.
pub(crate) async fn add_to_portfolio(tx: &mut Tx, event: &Event) -> Result<()> {
    portfolio::add(tx, &event.decode()?).await
}

/// `ledger-audit`: writes the audit log, which is kept for five years.
pub(crate) async fn write_audit(tx: &mut Tx, event: &Event) -> Result<()> {
    audit::append(tx, event, &event.decode()?).await
}

/// `ledger-sequence`: records missing and repeated sequence numbers. It does not fail on them, so an event that arrived does
/// not wait for a missing one. The record stays until an operator has checked it.
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
                "sequence numbers of an account are missing"
            );
            for number in missing.take(MISSING_MAX) {
                sequence::note(tx, &account_id, number, "missing").await?;
            }
        }
        Arrival::Behind => return handle_late_number(tx, &account_id, sequence_number).await,
    }
    sequence::set_last(tx, &account_id, sequence_number).await
}

/// Handles a number that is not above the last one: a missing number has arrived, or two events have the same number. (The
/// inbox already drops a repeated event with the same id.)
async fn handle_late_number(tx: &Tx, account_id: &str, number: i64) -> Result<()> {
    if !sequence::mend(tx, account_id, number).await? {
        tracing::error!(
            account = account_id,
            number,
            "a sequence number of an account is repeated"
        );
        sequence::note(tx, account_id, number, "repeated").await?;
    }
    Ok(())
}
