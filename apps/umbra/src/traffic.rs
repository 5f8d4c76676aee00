//! Generated guilds and subscribers, so that a demo shows events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postroom::{Error, ErrorKind, Job, Outbox, Result, table};
use postroom_host::Problem;

use crate::billing::charge::Till;
use crate::billing::handlers::CARD_DECLINED;
use crate::door::new_id;
use crate::plan::Plan;
use crate::{billing, guild, identity};

/// The interval between two new guilds.
const EVERY: Duration = Duration::from_secs(5);
/// One in this many guilds removes the bot again.
const KICKS: u64 = 5;

pub(crate) fn traffic(till: Till) -> Job {
    let count = Arc::new(AtomicU64::new(0));
    Job::every("umbra-traffic", EVERY, move |outbox| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        add_guild(outbox, till.clone(), number)
    })
}

/// Registers a user, installs the bot and subscribes. Some guilds remove the bot afterwards.
async fn add_guild(outbox: Arc<dyn Outbox>, till: Till, number: u64) -> Result<u64> {
    let (guild_id, db) = (new_id(), outbox.db());
    let tx = table::begin(db).await?;
    let user_id = identity::handlers::register(&tx, &new_id()).await.map_err(fault)?;
    let guild = guild::handlers::install(&tx, &guild_id, &user_id)
        .await
        .map_err(fault)?;
    billing::handlers::issue_key(&tx, &user_id, card(number)).await?;
    let wanted = (guild_id.as_str(), user_id.as_str(), Plan::Pro);
    let charge = billing::handlers::open(&tx, &till, wanted, guild.version)
        .await
        .map_err(fault)?;
    tx.commit().await?;
    match billing::handlers::charge_first(db, &till, charge).await {
        // An expected outcome: the guild keeps the free plan.
        Err(problem) if problem.code() == CARD_DECLINED => {}
        charged => drop(charged.map_err(fault)?),
    }
    if number % KICKS == KICKS - 1 {
        let tx = table::begin(db).await?;
        guild::handlers::kick(&tx, &guild_id).await.map_err(fault)?;
        tx.commit().await?;
    }
    Ok(1)
}

/// Most cards are valid. Some expire, and for some the first answer is lost.
fn card(number: u64) -> &'static str {
    match number % 10 {
        3 | 6 => "expires",
        8 => "lost",
        _ => "visa",
    }
}

fn fault(problem: Problem) -> Error {
    Error::new(ErrorKind::Failed, format!("add a guild: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use postroom::Position;
    use postroom_testkit::fresh;

    use super::*;
    use crate::Umbra;

    /// Two in ten cards expire, and the second of them is already expired: the job does not fail on it.
    #[tokio::test]
    async fn a_day_has_cards_that_are_declined() {
        let (fresh, umbra) = (fresh::sqlite().await, Umbra::default());
        let till = umbra.till();
        umbra.module().migrate(&*fresh).await.unwrap();
        for number in 0..10 {
            let brought = add_guild(fresh.store() as _, till.clone(), number).await;
            assert_eq!(brought.map_err(|error| error.report()), Ok(1), "guild {number}");
        }
        let page = fresh.read(Position::START, 1000).await.unwrap();
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in page.entries.iter() {
            *count.entry(&entry.event.event_type).or_default() += 1;
        }
        assert_eq!((count["BotInstalled"], count["BotKicked"]), (10, 2));
        assert_eq!(
            count["SubscriptionStarted"], 8,
            "one card is declined, one answer lost: {count:?}"
        );
    }

    #[test]
    fn what_goes_wrong_is_said_in_words() {
        let problem = crate::refusal::Refusal::conflict("guild_deleted", "this guild is gone").into();
        assert_eq!(
            fault(problem).report(),
            "add a guild: this guild is gone (guild_deleted)"
        );
    }
}
