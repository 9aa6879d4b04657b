//! Several memory nodes: a batch may be for all of them, and each keeps its own order.

use super::{Case, Play, race, read, wait_for, write};
use crate::{Address, Batch, Buffer, Endpoint, VerbError};

/// Memory nodes that the cases of this module reach.
const NODES: u8 = 3;

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    let case = |name, clients, play| Case::new(name, clients, play).over(NODES);
    vec![
        case("every_node_has_words_of_its_own", 1, |e, _, r| Box::pin(own_words(e, r))),
        case("a_batch_to_several_nodes_takes_effect_on_each", 1, |e, _, r| Box::pin(one_batch(e, r))),
        case("verbs_to_one_node_are_in_order_whatever_is_between_them", 2, |e, c, r| messages(e, c, r)),
        case("what_completed_on_one_node_is_seen_by_whatever_is_posted_later_to_another", 2, |e, c, r| {
            Box::pin(marks(e, c, r))
        })
        .verified(|e, r| Box::pin(decided(e, r))),
        case("a_batch_with_a_node_that_is_not_there_changes_nothing", 1, |e, _, _| Box::pin(absent(e))),
    ]
}

fn word_of(node: u8, index: u64) -> Address {
    Address::new(node, 0, 8 * index)
}

/// Makes sure that all nodes are reached.
async fn reach_all<E: Endpoint>(endpoint: &E) {
    for node in 0..NODES {
        endpoint.reach(node).await.expect("the node is there");
    }
}

async fn own_words<E: Endpoint>(endpoint: E, rounds: u64) {
    reach_all(&endpoint).await;
    for round in 1..=rounds.min(100) {
        for node in 0..NODES {
            write(&endpoint, word_of(node, round), 100 * round + u64::from(node)).await;
        }
        for node in 0..NODES {
            assert_eq!(read(&endpoint, word_of(node, round)).await, 100 * round + u64::from(node), "node {node}");
        }
    }
}

/// Every kind of verb to every node in one batch; the results are those of the verbs' own nodes.
async fn one_batch<E: Endpoint>(endpoint: E, rounds: u64) {
    const SWAPPED: u64 = 8;
    const ADDED: u64 = 16;
    const WRITTEN: u64 = 24;
    const SHOWN: u64 = 32;
    reach_all(&endpoint).await;
    for node in 0..NODES {
        write(&endpoint, word_of(node, SHOWN), 7 + u64::from(node)).await;
    }
    for round in 1..=rounds {
        let value = |node| 1000 * round + u64::from(node);
        let mut batch = Batch::new();
        let mut tickets = Vec::new();
        for node in 0..NODES {
            let mut buffer = Buffer::sized(64);
            buffer.words_mut().fill(value(node));
            let before = if round == 1 { 0 } else { value(node) - 1000 };
            batch.write(word_of(node, WRITTEN), buffer);
            let swap = batch.compare_and_swap(word_of(node, SWAPPED), before, value(node));
            let add = batch.fetch_and_add(word_of(node, ADDED), 1 + u64::from(node));
            let shown = batch.read_word(word_of(node, SHOWN));
            tickets.push((node, swap, add, shown));
        }
        endpoint.post(&mut batch).await.expect("all nodes are there");
        for (node, swap, add, shown) in tickets {
            assert!(batch.swapped(swap), "node {node} in round {round}: found {}", batch.word(swap));
            assert_eq!(batch.word(add), (round - 1) * (1 + u64::from(node)), "node {node} in round {round}");
            assert_eq!(batch.word(shown), 7 + u64::from(node));
            assert_eq!(read(&endpoint, word_of(node, WRITTEN + 7)).await, value(node), "node {node} in round {round}");
        }
    }
}

/// Message passing on each node, with the other nodes' verbs in between.
fn messages<E: Endpoint + 'static>(endpoint: E, client: usize, rounds: u64) -> Play {
    const DATA_WORDS: usize = 12;
    const ANSWER: u64 = 8;
    const DATA: u64 = 512;
    Box::pin(async move {
        reach_all(&endpoint).await;
        for round in 1..=rounds {
            let mut batch = Batch::new();
            if client == 0 {
                for node in 0..NODES {
                    let mut buffer = Buffer::sized(8 * DATA_WORDS);
                    buffer.words_mut().fill(round);
                    batch.write(word_of(node, DATA), buffer);
                }
                for node in (0..NODES).rev() {
                    batch.fetch_and_add(word_of(node, 0), 1);
                }
                endpoint.post(&mut batch).await.expect("all nodes are there");
                wait_for(&endpoint, word_of(0, ANSWER), round).await;
                continue;
            }
            for node in 0..NODES {
                wait_for(&endpoint, word_of(node, 0), round).await;
                let mut batch = Batch::new();
                let data = batch.read(word_of(node, DATA), Buffer::sized(8 * DATA_WORDS));
                endpoint.post(&mut batch).await.expect("the node is there");
                assert_eq!(batch.take(data).words(), [round; DATA_WORDS], "node {node}");
            }
            write(&endpoint, word_of(0, ANSWER), round).await;
        }
    })
}

/// Rounds have words of their own, as far as the regions have them.
const ROUNDS_MAX: u64 = 1000;

fn mark(round: u64, client: usize) -> Address {
    word_of(1 + client as u8, 64 + 8 * (round % ROUNDS_MAX))
}

fn saw(round: u64, client: usize) -> Address {
    word_of(0, 64 + 16 * (round % ROUNDS_MAX) + 8 * client as u64)
}

/// Store buffering over two nodes: each client makes its mark on a node of its own, in a batch that
/// also goes to another one, waits, and looks at the other's node.
async fn marks<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    reach_all(&endpoint).await;
    for round in 0..rounds.min(ROUNDS_MAX) {
        race::begin(&endpoint, round).await;
        let mut batch = Batch::new();
        batch.read_word(word_of(0, 8));
        batch.write_word(mark(round, client), 1);
        endpoint.post(&mut batch).await.expect("all nodes are there");
        let other = read(&endpoint, mark(round, 1 - client)).await;
        write(&endpoint, saw(round, client), 1 + other).await;
    }
}

async fn decided<E: Endpoint>(endpoint: E, rounds: u64) {
    reach_all(&endpoint).await;
    for round in 0..rounds.min(ROUNDS_MAX) {
        let saw = (read(&endpoint, saw(round, 0)).await, read(&endpoint, saw(round, 1)).await);
        assert!([(1, 2), (2, 1), (2, 2)].contains(&saw), "round {round}: neither saw the other's mark: {saw:?}");
    }
}

async fn absent<E: Endpoint>(endpoint: E) {
    reach_all(&endpoint).await;
    let missing = word_of(NODES, 64);
    for kind in 0..4 {
        let mut batch = Batch::new();
        for node in 0..NODES {
            batch.write_word(word_of(node, 8), 5);
            batch.fetch_and_add(word_of(node, 16), 1);
        }
        match kind {
            0 => batch.write_word(missing, 1),
            1 => batch.read_word(missing),
            2 => batch.fetch_and_add(missing, 1),
            _ => batch.compare_and_swap(missing, 0, 1),
        };
        batch.write_word(word_of(0, 24), 5);
        let error = VerbError::unreachable(missing, 8);
        assert_eq!(endpoint.post(&mut batch).await, Err(error), "kind {kind}");
        for node in 0..NODES {
            for index in [8, 16, 24] {
                assert_eq!(read(&endpoint, word_of(node, index)).await, 0, "node {node}: the batch took effect");
            }
        }
    }
}
