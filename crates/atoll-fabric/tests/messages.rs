//! Messages of one host: processes are killed while they send, mailboxes hold hostile bytes and run
//! full, and receivers sleep.

use atoll_fabric::shm::{ShmFabric, ShmReach};
use atoll_fabric::{
    Address, Batch, Endpoint, Fabric, Mailbox, Messenger, Reach, Sender, VerbError, block_on, run_ready,
};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HOME: &str = "ATOLL_MESSAGES_HOME";
const TO: &str = "ATOLL_MESSAGES_TO";
const BYTES: u64 = 1 << 16;
/// Messages that wait at a mailbox of one host.
const WAITING_MAX: usize = 64;

/// A pool's names, removed when the test is over, also when it fails.
struct Named(ShmFabric);

impl Named {
    fn new(what: &str) -> (Self, ShmReach) {
        let fabric = ShmFabric::named(&format!("shm:/atoll-messages-{what}-{}", std::process::id())).unwrap();
        let reach = fabric.reach(fabric.create(0, BYTES, BYTES).unwrap());
        (Self(fabric), reach)
    }

    /// Files of regions that compute nodes export.
    fn exports(&self) -> usize {
        let name = self.0.address().unwrap().replace("shm:/", "atoll.");
        let files = std::fs::read_dir("/dev/shm").unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with(&format!("{name}+c"))).count()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.0.remove(0);
    }
}

/// A message that says how long it is and what its bytes are.
fn letter(round: u64) -> Vec<u8> {
    let mut letter = round.to_le_bytes().to_vec();
    letter.resize(8 + (round as usize * 37) % 4000, round as u8);
    letter
}

#[test]
fn a_sender_that_is_killed_at_any_point_leaves_whole_messages_and_a_mailbox_that_takes_all() {
    let (pool, reach) = Named::new("kill");
    let receiver = reach.endpoint();
    let mut received = 0;
    for turn in 0..25u64 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_sender_in_a_process_of_its_own", "--nocapture"]).stdout(Stdio::null());
        command.env(HOME, pool.0.address().unwrap()).env(TO, receiver.mailbox().0.to_string());
        let mut child = command.spawn().unwrap();
        let mut from = Mailbox::NOBODY;
        let mut end = None;
        // It is killed some time after its first message, while it sends as fast as it can.
        while end.is_none_or(|end| Instant::now() < end) {
            let Some(message) = block_on(&receiver, receiver.receive_within(20_000_000_000)) else {
                panic!("the sender sends")
            };
            let round = u64::from_le_bytes(message.bytes[..8].try_into().unwrap());
            assert_eq!(message.bytes, letter(round));
            assert_eq!(message.sender, Sender { slot: 3, epoch: child.id() });
            from = message.from;
            end = end.or_else(|| Some(Instant::now() + Duration::from_micros(300 * turn)));
            received += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(message) = block_on(&receiver, receiver.receive_within(1_000_000)) {
            assert_eq!((message.bytes.len(), message.from), (letter_bytes(&message.bytes), from));
        }
        let place = from.0 & ((1 << 19) - 1);
        let at = Address::on_compute((place >> 6) as u16, (place & 63) as u8, 0);
        let gone = receiver.reach_export(at);
        assert!(matches!(gone, Err(VerbError::ExportAbsent(_))), "{gone:?}");
    }
    assert!(received > 25);
    // What the dead left of names is gone, and every slot is free again.
    assert_eq!(pool.exports(), 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(block_on(&receiver, receiver.receive_within(1)), None);
    let sender = reach.endpoint();
    (0..WAITING_MAX).for_each(|_| sender.send(receiver.mailbox(), b"one of many").unwrap());
    let arrived = std::iter::from_fn(|| block_on(&receiver, receiver.receive_within(1))).count();
    assert_eq!(arrived, WAITING_MAX);
}

fn letter_bytes(bytes: &[u8]) -> usize {
    letter(u64::from_le_bytes(bytes[..8].try_into().unwrap())).len()
}

/// Sends for ever, told by its environment to whom; nothing in an ordinary run of the tests.
#[test]
fn a_sender_in_a_process_of_its_own() {
    let Ok(home) = std::env::var(HOME) else { return };
    let to = Mailbox(std::env::var(TO).unwrap().parse().unwrap());
    let fabric = ShmFabric::named(&home).unwrap();
    let sender = fabric.reach(fabric.open(0).unwrap()).endpoint();
    sender.sign(Sender { slot: 3, epoch: std::process::id() });
    for round in 0.. {
        sender.send(to, &letter(round)).unwrap();
    }
}

#[test]
fn a_full_mailbox_loses_and_what_is_in_it_arrives_in_order() {
    let (_pool, reach) = Named::new("full");
    let [receiver, sender] = [(); 2].map(|()| reach.endpoint());
    for round in 0..200u64 {
        sender.send(receiver.mailbox(), &letter(round)).unwrap();
    }
    let arrived: Vec<u64> = std::iter::from_fn(|| block_on(&receiver, receiver.receive_within(1)))
        .map(|message| u64::from_le_bytes(message.bytes[..8].try_into().unwrap()))
        .collect();
    assert_eq!(arrived, (0..WAITING_MAX as u64).collect::<Vec<_>>());
}

#[test]
fn hostile_words_in_a_mailbox_harm_no_receiver_and_no_sender() {
    let (_pool, reach) = Named::new("hostile");
    let [receiver, sender] = [(); 2].map(|()| reach.endpoint());
    let place = receiver.mailbox().0 & ((1 << 19) - 1);
    let at = Address::on_compute((place >> 6) as u16, (place & 63) as u8, 0);
    let bytes = sender.reach_export(at).unwrap().bytes;
    for turn in 0..200 {
        // All words but the magic and the receiver, or only those of the slots.
        let first = if turn % 2 == 0 { 64 } else { 128 };
        let end = if turn % 3 == 0 { bytes } else { 640 };
        for offset in (first..end).step_by(8) {
            let mut batch = Batch::new();
            batch.write_word(at.add(offset), sender.random() & sender.random() << (sender.random() % 64));
            run_ready(sender.post(&mut batch)).unwrap();
        }
        for _ in 0..3 {
            sender.send(receiver.mailbox(), b"after all that").unwrap();
        }
        while let Some(message) = block_on(&receiver, receiver.receive_within(1)) {
            assert!(message.bytes.len() <= atoll_fabric::MESSAGE_BYTES_MAX);
        }
    }
    // Slots become free again that are marked as being written, and by no sender.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(block_on(&receiver, receiver.receive_within(1)), None);
    sender.send(receiver.mailbox(), b"hello").unwrap();
    assert_eq!(block_on(&receiver, receiver.receive_within(1)).unwrap().bytes, b"hello");
    // A mailbox that is none any more takes nothing.
    let mut batch = Batch::new();
    batch.write_word(at, 7);
    run_ready(sender.post(&mut batch)).unwrap();
    sender.send(receiver.mailbox(), b"hello").unwrap();
    assert_eq!(block_on(&receiver, receiver.receive_within(1)), None);
}

#[test]
fn a_receiver_that_waits_sleeps_and_is_woken() {
    let (_pool, reach) = Named::new("sleep");
    let receiver = reach.endpoint();
    let to = receiver.mailbox();
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<i64> =
            stat.rsplit(')').next().unwrap().split(' ').filter_map(|field| field.parse().ok()).collect();
        // User and system time, behind ppid, group, session, terminal, its group, flags, and
        // faults.
        fields[10] + fields[11]
    };
    let before = ticks();
    assert_eq!(block_on(&receiver, receiver.receive_within(500_000_000)), None);
    let burned = ticks() - before;
    assert!(burned <= 10, "{burned} hundredths of a second of a wait of 50");
    let sender = reach.endpoint();
    let sent = std::thread::spawn(move || {
        for round in 0..500 {
            std::thread::sleep(Duration::from_micros(100));
            sender.send(to, &letter(round)).unwrap();
        }
    });
    for round in 0..500 {
        assert_eq!(block_on(&receiver, receiver.receive()).bytes, letter(round));
    }
    sent.join().unwrap();
}
