//! Messages: each relaxation is taken, and none that is switched off; what a protocol can build on
//! them.

use atoll_fabric::{Address, Batch, Endpoint, MAILBOX_MESSAGES_MAX, Mailbox, MessageError, Messenger};
use atoll_sim::{After, Fault, Fencing, Relaxations, Sim, SimOptions};
use std::collections::HashSet;

fn simulation(seed: u64, relaxations: Relaxations) -> Sim {
    Sim::new(SimOptions { relaxations, ..SimOptions::new(seed, 4096) })
}

/// The numbers that arrive of 8 that are sent one after the other, in the order of their arrival.
fn arrivals(seed: u64, relaxations: Relaxations) -> Vec<u8> {
    let sim = simulation(seed, relaxations);
    let (sender, receiver) = (sim.endpoint("sender"), sim.endpoint("receiver"));
    let to = receiver.mailbox();
    sim.spawn("sender", async move {
        for number in 0..8 {
            sender.send(to, &[number]).unwrap();
            sender.pause(100).await;
        }
    });
    let arrived = sim.block_on(async move {
        let mut arrived = Vec::new();
        while let Some(message) = receiver.receive_within(10_000_000_000).await {
            arrived.push(message.bytes[0]);
        }
        arrived
    });
    arrived.unwrap()
}

const SENT: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn without_relaxations_messages_arrive_once_and_in_order() {
    (0..20).for_each(|seed| assert_eq!(arrivals(seed, Relaxations::none()), SENT));
}

#[test]
fn each_relaxation_is_taken_and_none_that_is_switched_off() {
    let all = Relaxations::all();
    let has =
        |relaxations: Relaxations, what: fn(&[u8]) -> bool| (0..200).any(|seed| what(&arrivals(seed, relaxations)));
    let is_lost = |arrived: &[u8]| SENT.iter().any(|number| !arrived.contains(number));
    let is_doubled = |arrived: &[u8]| arrived.iter().collect::<HashSet<_>>().len() < arrived.len();
    let is_reordered = |arrived: &[u8]| !arrived.is_sorted();
    assert!(has(all, is_lost) && has(all, is_doubled) && has(all, is_reordered));
    assert!(!has(Relaxations { lose_messages: false, ..all }, is_lost));
    assert!(!has(Relaxations { double_messages: false, ..all }, is_doubled));
    assert!(!has(Relaxations { delay_messages: false, ..all }, is_reordered));
}

#[test]
fn equal_seeds_bring_the_same_messages() {
    (0..20).for_each(|seed| assert_eq!(arrivals(seed, Relaxations::all()), arrivals(seed, Relaxations::all())));
}

#[test]
fn a_message_may_arrive_after_its_sender_has_died() {
    let died_first = (0..200).any(|seed| {
        let sim = simulation(seed, Relaxations::all());
        let (sender, receiver, control) = (sim.endpoint("sender"), sim.endpoint("receiver"), sim.control());
        let to = receiver.mailbox();
        let client = sim.spawn("sender", async move {
            sender.send(to, b"last words").unwrap();
            sender.pause(u64::MAX).await;
        });
        sim.control().fault(client, Fault::Kill, After::Ns(10));
        let outcome = sim.block_on(async move {
            let message = receiver.receive_within(10_000_000_000).await;
            message.is_some() && !control.is_alive(client)
        });
        outcome.unwrap()
    });
    assert!(died_first);
}

#[test]
fn a_mailbox_holds_so_many_messages_and_loses_the_next() {
    let sim = simulation(1, Relaxations::none());
    let (sender, receiver) = (sim.endpoint("sender"), sim.endpoint("receiver"));
    let (to, nobody) = (receiver.mailbox(), Mailbox(1 << 40));
    let arrived = sim.block_on(async move {
        for _ in 0..MAILBOX_MESSAGES_MAX + 10 {
            sender.send(to, b"one of many").unwrap();
            sender.send(nobody, b"lost").unwrap();
        }
        sender.pause(1_000_000).await;
        let mut arrived = 0;
        while receiver.receive_within(1_000_000).await.is_some() {
            arrived += 1;
        }
        arrived
    });
    assert_eq!(arrived, Ok(MAILBOX_MESSAGES_MAX));
}

#[test]
fn a_client_that_is_shut_out_sends_nothing() {
    let options = SimOptions { fencing: Fencing::Forced, ..SimOptions::new(1, 4096) };
    let sim = Sim::new(options);
    let (shut, other) = (sim.endpoint("shut"), sim.endpoint("other"));
    let outcome = sim.block_on(async move {
        assert!(other.shut_out(shut.identity()).await.unwrap());
        shut.send(other.mailbox(), b"still here")
    });
    assert_eq!(outcome, Ok(Err(MessageError::Fenced)));
}

#[test]
fn cut_messages_are_lost_one_way_and_for_a_time() {
    let sim = simulation(1, Relaxations::none());
    let (anna, bert, control) = (sim.endpoint("anna"), sim.endpoint("bert"), sim.control());
    let (to_anna, to_bert) = (anna.mailbox(), bert.mailbox());
    let outcome = sim.block_on(async move {
        control.cut_messages(to_anna, to_bert, 50_000);
        anna.send(to_bert, b"early").unwrap();
        bert.send(to_anna, b"hello").unwrap();
        let heard = anna.receive_within(60_000).await.map(|message| message.bytes);
        anna.pause(60_000).await;
        anna.send(to_bert, b"later").unwrap();
        (heard, bert.receive().await.bytes)
    });
    assert_eq!(outcome, Ok((Some(b"hello".to_vec()), b"later".to_vec())));
}

/// What protocols do: a client repeats its request until it is answered. The request has a number,
/// by which the receiver recognizes a request that it has answered.
#[test]
fn numbered_requests_that_are_repeated_take_effect_exactly_once() {
    const COUNTER: Address = Address::new(0, 0, 0);
    for seed in 0..300 {
        let sim = simulation(seed, Relaxations::all());
        let server = sim.endpoint("server");
        let to = server.mailbox();
        sim.spawn("server", async move {
            let mut done = HashSet::new();
            while let Some(request) = server.receive_within(20_000_000_000).await {
                if done.insert((request.from, request.bytes.clone())) {
                    let mut batch = Batch::new();
                    batch.fetch_and_add(COUNTER, 1);
                    server.post(&mut batch).await.unwrap();
                }
                server.send(request.from, &request.bytes).unwrap();
            }
        });
        for name in ["anna", "bert"] {
            let client = sim.endpoint(name);
            sim.spawn(name, async move {
                for number in 0..5_u8 {
                    loop {
                        client.send(to, &[number]).unwrap();
                        let answer = client.receive_within(50_000).await;
                        if answer.is_some_and(|answer| answer.bytes == [number]) {
                            break;
                        }
                    }
                }
            });
        }
        sim.run().unwrap();
        assert_eq!(sim.peek_word(COUNTER), 10, "seed {seed}");
    }
}
