//! Shared state with one thing wrong each: the clauses that must notice, notice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom::Result;
use postroom_shared::fan_out::check_channels;
use postroom_shared::registry::{Admitted, Connection, Limits};
use postroom_shared::tally::Change;
use postroom_shared::{
    FanOut, Listener, LocalFanOut, LocalRegistry, LocalTally, LocalTickets, Message, Registry, SharedState, Tally,
    Tickets,
};
use postroom_testkit::{fan_out_suite, registry_suite, tally_suite, ticket_suite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Each instance hears only itself.
    Apart,
    LosesSome,
    Reverses,
    HearsAllChannels,
    /// A new listener gets the last message that was published before.
    Keeps,
    /// Nothing fails when too much waits for a listener; the rest is dropped.
    DropsSilently,
    /// A call that is dropped takes its message with it.
    TakesAway,
    AcceptsNoChannel,
    /// The newcomer gives way.
    EvictsNewest,
    KnowsNoLimit,
    AnnouncesNothing,
    NamesTwice,
    /// A renewal makes a connection young, and so does admitting it again.
    Rejuvenates,
    RenewsNothing,
    LeaseNeverEnds,
    ForgivesEvicted,
    NeverLeaves,
    LeavesAll,
    ListsReversed,
    SweepsNothing,
    SweepsAll,
    MergesMembers,
    ChecksNothing,
    CountsTwice,
    SettlesNothing,
    CountsSettled,
    ForgetsNothing,
    MergesCounters,
    SumsReversed,
    RedeemsTwice,
    RedeemsExpired,
    RedeemsAll,
    SameTicket,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    fan_out: LocalFanOut,
    registry: LocalRegistry,
    tally: LocalTally,
    tickets: LocalTickets,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    published: usize,
    last: Option<Message>,
    redeemed: HashMap<String, String>,
    open: Vec<Connection>,
}

fn open(fault: Fault) -> Arc<Faulty> {
    let heard = Arc::new(LocalFanOut::new());
    Arc::new(Faulty {
        fault,
        fan_out: LocalFanOut::new(),
        registry: LocalRegistry::new(heard),
        tally: match fault {
            Fault::ForgetsNothing => LocalTally::keeping(Duration::from_hours(24)),
            _ => LocalTally::keeping(tally_suite::KEPT),
        },
        tickets: LocalTickets::new(),
        state: Mutex::default(),
    })
}

/// A listener on a queue of its own, which has the fault.
#[derive(Debug)]
struct FaultyListener {
    inner: Box<dyn Listener>,
    first: Option<Message>,
    fault: Fault,
    bounded: Option<mpsc::Receiver<Message>>,
    _reading: JoinSet<()>,
}

#[async_trait]
impl FanOut for Faulty {
    async fn publish(&self, messages: &[Message]) -> Result<()> {
        let mut messages = messages.to_vec();
        match self.fault {
            Fault::LosesSome => messages.retain(|_| {
                let mut state = self.state.lock().unwrap();
                state.published += 1;
                !state.published.is_multiple_of(7)
            }),
            Fault::Reverses => messages.reverse(),
            Fault::HearsAllChannels => messages
                .iter_mut()
                .for_each(|message| "everything".clone_into(&mut message.channel)),
            _ => {}
        }
        self.state.lock().unwrap().last = messages.last().cloned();
        self.fan_out.publish(&messages);
        Ok(())
    }

    async fn listen(&self, channels: &[&str]) -> Result<Box<dyn Listener>> {
        let channels = match self.fault {
            Fault::AcceptsNoChannel if check_channels(channels).is_err() => &["a"],
            Fault::HearsAllChannels => &["everything"],
            _ => channels,
        };
        let first = self.state.lock().unwrap().last.clone();
        let mut listener = FaultyListener {
            inner: self.fan_out.listen(channels).await?,
            first: first.filter(|_| self.fault == Fault::Keeps),
            fault: self.fault,
            bounded: None,
            _reading: JoinSet::new(),
        };
        if self.fault == Fault::DropsSilently {
            let mut inner = self.fan_out.listen(channels).await?;
            let (queue, bounded) = mpsc::channel(10_000);
            listener.bounded = Some(bounded);
            listener._reading.spawn(async move {
                while let Ok(message) = inner.next().await {
                    drop(queue.try_send(message));
                }
            });
        }
        Ok(Box::new(listener))
    }
}

#[async_trait]
impl Listener for FaultyListener {
    async fn next(&mut self) -> Result<Message> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        if let Some(bounded) = &mut self.bounded {
            return Ok(bounded.recv().await.unwrap());
        }
        let message = self.inner.next().await;
        if self.fault == Fault::TakesAway {
            sleep(Duration::from_millis(3)).await;
        }
        message
    }
}

impl Faulty {
    fn limits(&self, limits: &Limits) -> Limits {
        let mut limits = limits.clone();
        match self.fault {
            Fault::KnowsNoLimit => limits.limit = u32::MAX,
            Fault::LeaseNeverEnds => limits.lease = Duration::from_hours(24),
            Fault::ChecksNothing => {
                limits.limit = limits.limit.max(1);
                limits.kind = limits.kind.replace('{', "");
            }
            _ => {}
        }
        limits
    }

    fn connection(&self, connection: &Connection) -> Connection {
        let mut connection = connection.clone();
        match self.fault {
            Fault::MergesMembers => connection.member.retain(|c| !"{}".contains(c)),
            Fault::ChecksNothing => connection.member.push('.'),
            _ => {}
        }
        connection
    }

    /// Falsifies an answer, if that is the fault.
    async fn answer(&self, limits: &Limits, connection: &Connection, answer: Admitted) -> Result<Admitted> {
        match (self.fault, answer) {
            (Fault::EvictsNewest, Admitted::Yes { since, evicted }) if !evicted.is_empty() => {
                let own = vec![connection.id];
                self.registry.leave(limits, std::slice::from_ref(connection)).await?;
                Ok(Admitted::Yes { since, evicted: own })
            }
            (Fault::ForgivesEvicted, Admitted::Evicted) => Ok(Admitted::Yes {
                since: connection.since.unwrap_or_default(),
                evicted: Vec::new(),
            }),
            (Fault::NamesTwice, Admitted::Yes { since, evicted }) => {
                let evicted = evicted.iter().chain(&evicted).copied().collect();
                Ok(Admitted::Yes { since, evicted })
            }
            (_, answer) => Ok(answer),
        }
    }
}

#[async_trait]
impl Registry for Faulty {
    async fn admit(&self, limits: &Limits, connection: &Connection) -> Result<Admitted> {
        let (limits, connection) = (self.limits(limits), self.connection(connection));
        if self.fault == Fault::Rejuvenates {
            self.registry.leave(&limits, std::slice::from_ref(&connection)).await?;
        }
        self.state.lock().unwrap().open.push(connection.clone());
        let answer = self.registry.admit(&limits, &connection).await?;
        self.answer(&limits, &connection, answer).await
    }

    async fn renew(&self, limits: &Limits, connections: &[Connection]) -> Result<Vec<Admitted>> {
        let limits = self.limits(limits);
        let mut answers = Vec::new();
        for connection in connections {
            let mut connection = self.connection(connection);
            if self.fault == Fault::RenewsNothing {
                let since = connection.since.unwrap_or_default();
                answers.push(Admitted::Yes {
                    since,
                    evicted: Vec::new(),
                });
                continue;
            }
            if self.fault == Fault::Rejuvenates {
                connection.since = None;
                self.registry.leave(&limits, std::slice::from_ref(&connection)).await?;
            }
            let renewed = self.registry.renew(&limits, std::slice::from_ref(&connection)).await?;
            for answer in renewed {
                answers.push(self.answer(&limits, &connection, answer).await?);
            }
        }
        Ok(answers)
    }

    async fn leave(&self, limits: &Limits, connections: &[Connection]) -> Result<()> {
        let open = self.state.lock().unwrap().open.clone();
        match self.fault {
            Fault::NeverLeaves => Ok(()),
            Fault::LeavesAll => self.registry.leave(limits, &open).await,
            _ => self.registry.leave(limits, connections).await,
        }
    }

    async fn list(&self, limits: &Limits, member: &str) -> Result<Vec<Connection>> {
        let mut list = self.registry.list(limits, member).await?;
        if self.fault == Fault::ListsReversed {
            list.reverse();
        }
        Ok(list)
    }

    async fn sweep(&self, limits: &Limits, lifetime: Duration) -> Result<u64> {
        match self.fault {
            Fault::SweepsNothing => Ok(0),
            Fault::SweepsAll => self.registry.sweep(limits, Duration::ZERO).await,
            _ => self.registry.sweep(limits, lifetime).await,
        }
    }
}

impl Faulty {
    fn changes(&self, changes: &[Change]) -> Vec<Change> {
        let mut changes = changes.to_vec();
        for change in &mut changes {
            match self.fault {
                Fault::CountsTwice => change.id = Uuid::now_v7().to_string(),
                Fault::MergesCounters => change.counter.truncate(20),
                _ => {}
            }
        }
        changes
    }
}

#[async_trait]
impl Tally for Faulty {
    async fn add(&self, changes: &[Change]) -> Result<()> {
        self.tally.add(&self.changes(changes)).await
    }

    async fn settle(&self, changes: &[Change]) -> Result<()> {
        if self.fault == Fault::SettlesNothing {
            return Ok(());
        }
        if self.fault != Fault::CountsSettled {
            return self.tally.settle(changes).await;
        }
        // Undone by a change of the opposite, known or not.
        let undo = |change: &Change| Change {
            id: format!("-{}", change.id),
            delta: -change.delta,
            ..change.clone()
        };
        self.tally.add(&changes.iter().map(undo).collect::<Vec<_>>()).await
    }

    async fn read(&self, counters: &[String]) -> Result<Vec<i64>> {
        let mut names = counters.to_vec();
        if self.fault == Fault::MergesCounters {
            names.iter_mut().for_each(|name| name.truncate(20));
        }
        let mut sums = self.tally.read(&names).await?;
        if self.fault == Fault::SumsReversed {
            sums.reverse();
        }
        Ok(sums)
    }
}

#[async_trait]
impl Tickets for Faulty {
    async fn issue(&self, content: &str, lifetime: Duration) -> Result<String> {
        let lifetime = match self.fault {
            Fault::RedeemsExpired => Duration::from_hours(1),
            _ => lifetime,
        };
        match self.fault {
            Fault::SameTicket => Ok(postroom_shared::ticket::hash(content)),
            _ => self.tickets.issue(content, lifetime).await,
        }
    }

    async fn redeem(&self, ticket: &str) -> Result<Option<String>> {
        let found = self.tickets.redeem(ticket).await?;
        if let Some(content) = &found {
            let mut state = self.state.lock().unwrap();
            state.redeemed.insert(ticket.to_owned(), content.clone());
        }
        let before = self.state.lock().unwrap().redeemed.get(ticket).cloned();
        Ok(match self.fault {
            Fault::RedeemsTwice => found.or(before),
            Fault::RedeemsAll => found.or(Some(String::new())),
            _ => found,
        })
    }
}

fn fan_outs(fault: Fault) -> fan_out_suite::Instances {
    let one = open(fault);
    let two = if fault == Fault::Apart {
        open(fault)
    } else {
        Arc::clone(&one)
    };
    [one, two]
}

fn registries(fault: Fault) -> registry_suite::Instances {
    let local = SharedState::local();
    let fan_out = Arc::new(LocalFanOut::new());
    let registry = match fault {
        Fault::Apart => Arc::new(LocalRegistry::new(Arc::clone(&fan_out))) as Arc<dyn Registry>,
        _ => open(fault),
    };
    let one = SharedState {
        registry: Arc::clone(&registry),
        fan_out,
        ..local.clone()
    };
    let two = match fault {
        Fault::Apart => local,
        _ => one.clone(),
    };
    [one, two]
}

fn tallies(fault: Fault) -> tally_suite::Instances {
    let one = open(fault);
    let two = if fault == Fault::Apart {
        open(fault)
    } else {
        Arc::clone(&one)
    };
    [one, two]
}

fn tickets(fault: Fault) -> ticket_suite::Instances {
    let one = open(fault);
    let two = if fault == Fault::Apart {
        open(fault)
    } else {
        Arc::clone(&one)
    };
    [one, two]
}

/// Waiting takes no time: the clock goes on when nothing else does.
async fn caught(name: &str, clause: impl Future<Output = ()> + Send + 'static) {
    let mut run = JoinSet::new();
    run.spawn(clause);
    let outcome = run.join_next().await.unwrap();
    assert!(outcome.is_err_and(|error| error.is_panic()), "{name} did not notice");
}

/// One test per fault: each of these clauses fails on it.
macro_rules! caught {
    ($suite:ident, $open:ident: $($test:ident: $fault:ident by $($clause:ident),+;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            $(caught(stringify!($clause), $suite::$clause($open(Fault::$fault))).await;)+
        }
    )+};
}

mod fan_out {
    use super::*;

    caught! { fan_out_suite, fan_outs:
        instances_that_are_apart_are_caught: Apart by
            a_message_reaches_the_listeners_of_every_instance_in_order, a_listener_gets_only_its_channels,
            a_message_without_a_listener_is_gone, publishers_of_two_instances_keep_their_own_order;
        lost_messages_are_caught: LosesSome by
            a_message_reaches_the_listeners_of_every_instance_in_order, a_call_that_is_dropped_loses_no_message,
            channels_and_bodies_are_any_bytes, publishers_of_two_instances_keep_their_own_order;
        disorder_is_caught: Reverses by
            a_message_reaches_the_listeners_of_every_instance_in_order, a_call_that_is_dropped_loses_no_message;
        deaf_channels_are_caught: HearsAllChannels by a_listener_gets_only_its_channels;
        kept_messages_are_caught: Keeps by a_message_without_a_listener_is_gone;
        silent_loss_is_caught: DropsSilently by a_slow_listener_fails_and_delays_no_other;
        calls_that_take_messages_away_are_caught: TakesAway by a_call_that_is_dropped_loses_no_message;
        listeners_on_nothing_are_caught: AcceptsNoChannel by a_subscription_to_no_channel_is_refused;
    }
}

mod registry {
    use super::*;

    caught! { registry_suite, registries:
        instances_that_are_apart_are_caught: Apart by
            the_oldest_connection_gives_way_to_a_new_one, evictions_are_announced_to_every_instance,
            concurrent_admissions_keep_the_limit_and_evict_each_connection_once;
        newcomers_that_give_way_are_caught: EvictsNewest by
            the_oldest_connection_gives_way_to_a_new_one,
            concurrent_admissions_keep_the_limit_and_evict_each_connection_once;
        a_missing_limit_is_caught: KnowsNoLimit by
            the_oldest_connection_gives_way_to_a_new_one, admitting_a_connection_again_keeps_its_place_and_age,
            the_registry_is_rebuilt_by_renewals_in_any_order;
        missing_announcements_are_caught: AnnouncesNothing by evictions_are_announced_to_every_instance;
        evictions_that_are_named_twice_are_caught: NamesTwice by
            concurrent_admissions_keep_the_limit_and_evict_each_connection_once;
        connections_that_become_young_are_caught: Rejuvenates by
            admitting_a_connection_again_keeps_its_place_and_age, a_connection_keeps_its_place_while_it_is_renewed,
            a_connection_that_was_not_renewed_comes_back_as_old_as_it_was, the_registry_is_rebuilt_by_renewals_in_any_order;
        renewals_without_effect_are_caught: RenewsNothing by
            a_connection_keeps_its_place_while_it_is_renewed,
            a_connection_that_was_not_renewed_comes_back_as_old_as_it_was, a_connection_that_gave_way_is_refused;
        leases_without_end_are_caught: LeaseNeverEnds by
            a_connection_keeps_its_place_while_it_is_renewed, the_registry_is_rebuilt_by_renewals_in_any_order;
        forgiven_evictions_are_caught: ForgivesEvicted by
            a_connection_that_gave_way_is_refused, admitting_a_connection_again_keeps_its_place_and_age;
        places_that_are_never_left_are_caught: NeverLeaves by leaving_gives_a_place_back_at_once;
        places_of_others_that_are_left_are_caught: LeavesAll by leaving_gives_a_place_back_at_once;
        lists_in_another_order_are_caught: ListsReversed by a_list_names_the_connections_with_a_place;
        a_missing_sweep_is_caught: SweepsNothing by a_sweep_removes_what_is_old_or_was_left_behind;
        merged_members_are_caught: MergesMembers by members_and_kinds_are_independent;
        limits_without_checks_are_caught: ChecksNothing by limits_that_cannot_be_kept_are_refused;
    }
}

mod tally {
    use super::*;

    caught! { tally_suite, tallies:
        instances_that_are_apart_are_caught: Apart by
            a_sum_has_each_change_once_until_it_is_settled, concurrent_calls_lose_and_double_nothing;
        changes_that_count_twice_are_caught: CountsTwice by
            a_sum_has_each_change_once_until_it_is_settled, concurrent_calls_lose_and_double_nothing;
        settling_without_effect_is_caught: SettlesNothing by
            a_sum_has_each_change_once_until_it_is_settled, a_change_that_is_settled_first_is_never_counted;
        counters_below_nothing_are_caught: CountsSettled by a_change_that_is_settled_first_is_never_counted;
        changes_that_stay_for_ever_are_caught: ForgetsNothing by a_change_that_nobody_settles_is_forgotten;
        merged_counters_are_caught: MergesCounters by counters_are_independent;
        answers_in_another_order_are_caught: SumsReversed by counters_are_independent;
    }
}

mod ticket {
    use super::*;

    caught! { ticket_suite, tickets:
        instances_that_are_apart_are_caught: Apart by a_ticket_is_redeemed_once_on_any_instance;
        tickets_that_are_redeemed_twice_are_caught: RedeemsTwice by
            a_ticket_is_redeemed_once_on_any_instance, of_concurrent_calls_one_redeems_the_ticket;
        expired_tickets_are_caught: RedeemsExpired by an_unknown_or_expired_ticket_is_worth_nothing;
        any_text_for_a_ticket_is_caught: RedeemsAll by an_unknown_or_expired_ticket_is_worth_nothing;
        tickets_that_can_be_guessed_are_caught: SameTicket by tickets_are_never_the_same;
    }
}

/// The age of connections follows the wall clock, so this takes its time.
#[tokio::test]
async fn a_sweep_of_everything_is_caught() {
    let clause = registry_suite::a_sweep_removes_what_is_old_or_was_left_behind(registries(Fault::SweepsAll));
    caught("the sweep", clause).await;
}
