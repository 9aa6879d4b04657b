//! What the contract says of messages: see [`Messenger`].

use super::{Case, read, wait_for, word, write};
use crate::{Endpoint, MAILBOX_MESSAGES_MAX, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger, Sender};

pub(super) fn cases<E: Endpoint + Messenger + 'static>() -> Vec<Case<E>> {
    vec![
        Case::new("a_message_arrives_whole_or_not_at_all", CLIENTS, |e, c, r| Box::pin(exchange(e, c, r))),
        Case::new("what_is_sent_to_an_endpoint_that_is_gone_arrives_at_none_that_comes_after", 2, |e, c, _| match c {
            0 => Box::pin(leave(e)),
            _ => Box::pin(come_after(e)),
        }),
        Case::new("what_completed_before_a_message_was_sent_is_visible_to_its_receiver", 2, |e, c, r| match c {
            0 => Box::pin(write_and_send(e, r)),
            _ => Box::pin(receive_and_read(e)),
        }),
        Case::new("a_mailbox_that_ran_full_loses_messages_and_takes_later_ones", 2, |e, c, _| match c {
            0 => Box::pin(overfill(e)),
            _ => Box::pin(empty(e)),
        }),
        Case::new("a_message_names_the_incarnation_that_its_sender_had_when_it_sent", 2, |e, c, r| match c {
            0 => Box::pin(change_incarnation(e, r)),
            _ => Box::pin(check_incarnations(e)),
        }),
    ]
}

const CLIENTS: usize = 3;

/// Where a client says where it receives.
async fn publish<E: Endpoint + Messenger>(endpoint: &E, client: usize) {
    write(endpoint, word(client as u64), endpoint.mailbox().0).await;
}

async fn mailbox_of<E: Endpoint>(endpoint: &E, client: usize) -> Mailbox {
    Mailbox(wait_for(endpoint, word(client as u64), 1).await)
}

/// A message that says from whom to whom it is, and that is of no other length and no other bytes.
fn letter(from: usize, to: usize, round: u64) -> Vec<u8> {
    let bytes = [0, 1, 7, 100, MESSAGE_BYTES_MAX - 10][round as usize % 5];
    let mut letter = vec![from as u8, to as u8];
    letter.extend(round.to_le_bytes());
    letter.resize(10 + bytes, round as u8 ^ 0xa5);
    letter
}

/// As which client a client sends.
fn sender(client: usize) -> Sender {
    Sender { slot: client as u32, epoch: u32::MAX - client as u32 }
}

async fn exchange<E: Endpoint + Messenger>(endpoint: E, client: usize, rounds: u64) {
    endpoint.sign(sender(client));
    publish(&endpoint, client).await;
    let mut mailboxes = Vec::new();
    for other in 0..CLIENTS {
        mailboxes.push(mailbox_of(&endpoint, other).await);
    }
    let check = |message: Message| {
        let from = message.bytes[0] as usize;
        let round = u64::from_le_bytes(message.bytes[2..10].try_into().expect("eight bytes"));
        assert_eq!(message.bytes, letter(from, client, round), "not as it was sent, or not to this client");
        assert_eq!(message.from, mailboxes[from], "from another than its sender");
        assert_eq!(message.sender, sender(from), "as another client than its sender's");
        assert!(round < rounds, "invented");
    };
    for round in 0..rounds {
        for other in (0..CLIENTS).filter(|other| *other != client) {
            endpoint.send(mailboxes[other], &letter(client, other, round)).expect("it is short enough");
        }
        if let Some(message) = endpoint.receive_within(1000).await {
            check(message);
        }
    }
    let too_long = vec![0; MESSAGE_BYTES_MAX + 1];
    let refused = endpoint.send(mailboxes[0], &too_long);
    assert_eq!(refused, Err(MessageError::TooLong { bytes: MESSAGE_BYTES_MAX + 1 }));
    endpoint.send(Mailbox::NOBODY, b"to nobody").expect("what is sent to nobody is lost");
    endpoint.send(Mailbox(u64::MAX), b"to nobody").expect("what is sent to nobody is lost");
    while let Some(message) = endpoint.receive_within(100_000).await {
        check(message);
    }
}

const WRITTEN: u64 = 16;
const SENT: u64 = 32;
const ENOUGH: u64 = 24;

async fn write_and_send<E: Endpoint + Messenger>(endpoint: E, rounds: u64) {
    publish(&endpoint, 0).await;
    let other = mailbox_of(&endpoint, 1).await;
    for round in 1..=rounds {
        write(&endpoint, word(WRITTEN), round).await;
        // Asked again until there is an answer: either may be lost.
        loop {
            endpoint.send(other, &round.to_le_bytes()).expect("it is short enough");
            let answer = endpoint.receive_within(10_000).await;
            if answer.is_some_and(|answer| answer.bytes == round.to_le_bytes()) {
                break;
            }
        }
    }
    write(&endpoint, word(ENOUGH), 1).await;
}

async fn receive_and_read<E: Endpoint + Messenger>(endpoint: E) {
    publish(&endpoint, 1).await;
    let other = mailbox_of(&endpoint, 0).await;
    while read(&endpoint, word(ENOUGH)).await == 0 {
        let Some(message) = endpoint.receive_within(5_000).await else { continue };
        let round = u64::from_le_bytes(message.bytes[..].try_into().expect("eight bytes"));
        let found = read(&endpoint, word(WRITTEN)).await;
        assert!(found >= round, "{round} was written before the message, and {found} is there");
        endpoint.send(other, &message.bytes).expect("it is short enough");
    }
}

/// Client 0 has a mailbox until client 1 lets it leave.
async fn leave<E: Endpoint + Messenger>(endpoint: E) {
    publish(&endpoint, 0).await;
    wait_for(&endpoint, word(ENOUGH), 1).await;
}

/// Client 1 makes its mailbox after client 0 has left. It sends to the mailbox of client 0.
async fn come_after<E: Endpoint + Messenger>(endpoint: E) {
    let gone = mailbox_of(&endpoint, 0).await;
    write(&endpoint, word(ENOUGH), 1).await;
    endpoint.pause(1_000_000).await;
    assert_ne!(endpoint.mailbox(), gone, "a mailbox is one endpoint's alone");
    for _ in 0..20 {
        endpoint.send(gone, b"to the one before").expect("it is short enough");
    }
    assert_eq!(endpoint.receive_within(1_000_000).await, None, "a message for another endpoint");
}

/// A number, and as many bytes as the longest message has.
fn long(number: u64) -> Vec<u8> {
    let mut message = number.to_le_bytes().to_vec();
    message.resize(MESSAGE_BYTES_MAX, number as u8);
    message
}

fn number_of(message: &Message) -> u64 {
    u64::from_le_bytes(message.bytes[..8].try_into().expect("every message has a number"))
}

/// Sends more than any mailbox holds, then one more message again and again until client 1 has it.
async fn overfill<E: Endpoint + Messenger>(endpoint: E) {
    let other = mailbox_of(&endpoint, 1).await;
    let last = 2 * MAILBOX_MESSAGES_MAX as u64;
    for number in 0..last {
        endpoint.send(other, &long(number)).expect("a full mailbox is no error");
    }
    write(&endpoint, word(SENT), 1).await;
    while read(&endpoint, word(ENOUGH)).await == 0 {
        endpoint.send(other, &long(last)).expect("a full mailbox is no error");
        endpoint.pause(10_000).await;
    }
}

/// Receives nothing until its mailbox has run full; then what is there, and the last message.
async fn empty<E: Endpoint + Messenger>(endpoint: E) {
    publish(&endpoint, 1).await;
    wait_for(&endpoint, word(SENT), 1).await;
    // Late messages are there by now, on a fabric that delays none for longer.
    endpoint.pause(1_000_000).await;
    loop {
        let Some(message) = endpoint.receive_within(100_000).await else { continue };
        let number = number_of(&message);
        assert_eq!(message.bytes, long(number), "not as it was sent");
        if number == 2 * MAILBOX_MESSAGES_MAX as u64 {
            break;
        }
    }
    write(&endpoint, word(ENOUGH), 1).await;
}

/// Sends each number as the client whose epoch is that number.
async fn change_incarnation<E: Endpoint + Messenger>(endpoint: E, rounds: u64) {
    let other = mailbox_of(&endpoint, 1).await;
    for epoch in 0..rounds {
        endpoint.sign(Sender { slot: 7, epoch: epoch as u32 });
        endpoint.send(other, &epoch.to_le_bytes()).expect("it is short enough");
    }
    while read(&endpoint, word(ENOUGH)).await == 0 {
        endpoint.send(other, &(rounds - 1).to_le_bytes()).expect("it is short enough");
        endpoint.pause(10_000).await;
    }
}

/// Checks the incarnation of every message, in whatever order they arrive. The first one that
/// arrives lets client 0 stop.
async fn check_incarnations<E: Endpoint + Messenger>(endpoint: E) {
    publish(&endpoint, 1).await;
    let check = |message: Message| {
        let epoch = number_of(&message) as u32;
        assert_eq!(message.sender, Sender { slot: 7, epoch }, "as another incarnation than it was sent");
    };
    check(endpoint.receive().await);
    write(&endpoint, word(ENOUGH), 1).await;
    while let Some(message) = endpoint.receive_within(100_000).await {
        check(message);
    }
}
