//! Timed runs: what they promise of time, order and limits.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind, Messenger, Purpose, VerbError, purpose::Scope};
use atoll_sim::network::bound::VerbShape;
use atoll_sim::network::traffic::{Limit, VerbKind};
use atoll_sim::network::{CpuCosts, Home, Network, Profile, Service, Stop, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Relaxations, Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

const AT: Address = Address::new(0, 0, 0);

fn word(number: u64) -> Address {
    Address::new(0, 0, 8 * number)
}

fn network(compute_nodes: u16) -> Network {
    Network::new(profiles::CX5_100G, compute_nodes)
}

fn timed(network: Network) -> Sim {
    Sim::new(SimOptions::timed(1, vec![vec![region(1 << 20, Kind::Host)], vec![region(1 << 20, Kind::Host)]], network))
}

/// Nanoseconds from the post of one batch to its result.
fn takes_ns(make: impl Fn(&mut Batch) + 'static) -> u64 {
    let sim = timed(network(1));
    let endpoint = sim.endpoint("client");
    let took = sim.block_on(async move {
        let mut batch = Batch::new();
        make(&mut batch);
        let begin_ns = endpoint.virtual_ns();
        endpoint.post(&mut batch).await.unwrap();
        endpoint.virtual_ns() - begin_ns
    });
    took.unwrap()
}

fn load(seed: u64, clients: u16) -> (Sim, atoll_sim::RunReport) {
    let nodes = vec![vec![region(1 << 20, Kind::Host)], vec![region(1 << 20, Kind::Host)]];
    let sim = Sim::new(SimOptions::timed(seed, nodes, network(2)));
    for client in 0..clients {
        let endpoint = sim.endpoint_on(&client.to_string(), client % 2);
        sim.spawn(&client.to_string(), async move {
            let mut batch = Batch::new();
            let mut buffer = Buffer::new();
            for _ in 0..200 {
                let random = endpoint.random();
                let at = |bits: u64| Address::new((bits & 1) as u8, 0, bits % 1000 * 512);
                batch.clear();
                buffer.resize(304);
                let written = batch.write(at(random), std::mem::take(&mut buffer));
                batch.fetch_and_add(at(random >> 20), 1);
                batch.fence();
                batch.read_word(at(random >> 40));
                endpoint.post(&mut batch).await.unwrap();
                buffer = batch.take(written);
            }
        });
    }
    let report = sim.run().unwrap();
    (sim, report)
}

#[test]
fn the_same_seed_gives_the_same_digits() {
    let ((first, one), (second, two)) = (load(3, 20), load(3, 20));
    assert_eq!((one, first.traffic()), (two, second.traffic()));
    assert_ne!(one.digest, load(4, 20).1.digest);
}

#[test]
fn these_digits_are_the_same_on_every_machine() {
    let network = Network { cpu: CpuCosts::none(), ..network(1) };
    let sim = timed(network);
    let endpoint = sim.endpoint("client");
    sim.block_on(async move { endpoint.read(AT, Buffer::new()).await.unwrap() }).unwrap();
    let profile = profiles::CX5_100G;
    let kib_ps = 1024 * 8 * 10;
    let (request_ps, response_ps) = (42 * kib_ps / 1024, 30 * kib_ps / 1024);
    let ways_ps = 2 * (profile.wire_ps + profile.switch_ps + request_ps + response_ps);
    let processor_ps = profile.client.batch_ps + profile.client.verb_ps + profile.client.completion_ps;
    let engines_ps = profile.issue.read_ps + profile.serve.read_ps;
    let all_ps =
        processor_ps + profile.doorbell_ps + engines_ps + ways_ps + profile.host_read_ps + profile.completion_ps;
    assert_eq!(sim.now_ns(), all_ps / 1000);
}

#[test]
fn a_fence_costs_a_round_trip_and_is_counted_as_one() {
    let plain_ns = takes_ns(|batch| {
        batch.read_word(word(0));
        batch.write_word(word(1), 1);
    });
    let fenced_ns = takes_ns(|batch| {
        batch.read_word(word(0));
        batch.write_word(word(1), 1);
        batch.fence();
    });
    let one_ns = takes_ns(|batch| {
        batch.read_word(word(0));
    });
    assert!(plain_ns < one_ns + one_ns / 10, "{plain_ns} against {one_ns}: verbs of a batch follow in a pipeline");
    let ways_ns = 2 * (profiles::CX5_100G.wire_ps + profiles::CX5_100G.switch_ps) / 1000;
    assert!(fenced_ns > plain_ns + ways_ns, "{fenced_ns} against {plain_ns}");
    let (sim, _) = load(1, 1);
    let posted = sim.traffic().unwrap().of(Purpose::Request);
    assert_eq!((posted.batches, posted.verbs), (200, 600));
    assert!((201..400).contains(&posted.round_trips), "fences to another node wait for nothing: {posted:?}");
}

#[test]
fn a_batch_keeps_its_order_to_a_node_and_its_effects_are_there() {
    let sim = timed(network(1));
    let endpoint = sim.endpoint("client");
    let found = sim.block_on(async move {
        let mut batch = Batch::new();
        batch.write_word(AT, 7);
        let swap = batch.compare_and_swap(AT, 7, 8);
        let read = batch.read_word(AT);
        endpoint.post(&mut batch).await.unwrap();
        (batch.swapped(swap), batch.word(read))
    });
    assert_eq!((found.unwrap(), sim.peek_word(AT)), ((true, 8), 8));
}

#[test]
fn atomics_on_one_address_wait_for_each_other_and_on_many_for_the_unit() {
    let rate = |addresses: u64| {
        let sim = timed(network(1));
        let done = Rc::new(Cell::new(0_u64));
        for client in 0..128_u64 {
            let (endpoint, done) = (sim.endpoint(""), done.clone());
            sim.spawn("", async move {
                let mut batch = Batch::new();
                loop {
                    batch.clear();
                    batch.fetch_and_add(word(client % addresses), 1);
                    endpoint.post(&mut batch).await.unwrap();
                    done.set(done.get() + 1);
                }
            });
        }
        assert!(!sim.run_until(1_000_000).unwrap());
        done.get()
    };
    let turn_ns = profiles::CX5_100G.atomics_host.turn_ps / 1000;
    assert!((rate(1) as i64 - (1_000_000 / turn_ns) as i64).abs() < 20, "{} a millisecond", rate(1));
    assert!((19_500..=20_000).contains(&rate(128)), "{} a millisecond", rate(128));
}

#[test]
fn a_run_stops_at_a_time_and_goes_on_later() {
    let sim = timed(network(1));
    let endpoint = sim.endpoint("client");
    let stop = Stop::at_ns(100_000);
    let done = Rc::new(Cell::new(0));
    let counted = done.clone();
    sim.spawn("client", async move {
        while stop.begins(&endpoint) {
            endpoint.pause(1000).await;
            counted.set(counted.get() + 1);
        }
    });
    assert!(!sim.run_until(50_500).unwrap());
    assert!((45..=50).contains(&done.get()), "{}", done.get());
    assert!(sim.run_until(u64::MAX).unwrap());
    assert!((95..=100).contains(&done.get()), "{}", done.get());
}

#[test]
fn clients_stop_after_so_many_operations_of_all() {
    let sim = timed(network(1));
    let stop = Stop::after_operations(1000);
    let by_client = Rc::new(RefCell::new([0; 4]));
    for client in 0..4 {
        let (endpoint, stop, by_client) = (sim.endpoint(""), stop.clone(), by_client.clone());
        sim.spawn("", async move {
            while stop.begins(&endpoint) {
                endpoint.read(AT, Buffer::new()).await.unwrap();
                by_client.borrow_mut()[client] += 1;
            }
        });
    }
    sim.run().unwrap();
    assert_eq!(*by_client.borrow(), [250; 4], "equal clients do equal parts");
}

#[test]
fn traffic_says_what_was_sent_for_what_and_which_limit_was_reached() {
    let sim = timed(network(3));
    for client in 0..120 {
        let endpoint = sim.endpoint_on("", client % 3);
        sim.spawn("", async move {
            let mut batch = Batch::new();
            for _ in 0..100 {
                endpoint.read(AT, Buffer::new()).await.unwrap();
                let _scope = Scope::new(&endpoint, Purpose::Hotness);
                batch.fetch_and_add(word(u64::from(client)), 1);
                endpoint.post_unawaited(&mut batch);
            }
            endpoint.flush().await.unwrap();
        });
    }
    sim.run().unwrap();
    let traffic = sim.traffic().unwrap();
    let (requests, hotness) = (traffic.of(Purpose::Request), traffic.of(Purpose::Hotness));
    assert_eq!((requests.round_trips, requests.verbs, requests.bytes), (12_000, 12_000, 0));
    assert_eq!((hotness.round_trips, hotness.verbs, hotness.bytes), (0, 12_000, 96_000));
    let memory_node = traffic.nics[3];
    assert_eq!(memory_node.verbs[VerbKind::Read as usize], 12_000);
    assert_eq!(memory_node.verbs[VerbKind::FetchAndAdd as usize], 12_000);
    assert_eq!(memory_node.bytes_in, 12_000 * (26 + 16 + 26 + 28));
    let (nic, limit, per_mille) = traffic.busiest().unwrap();
    assert_eq!((nic, limit), (3, Limit::Serve));
    assert!((900..=1000).contains(&per_mille), "{per_mille}");
    assert_eq!(traffic.since(&traffic).of(Purpose::Request).verbs, 0);
}

#[test]
fn a_compute_node_that_exports_a_region_serves_it_with_its_own_nic() {
    let network = Network { homes: vec![Home::ComputeNode(1)], ..network(2) };
    let sim = timed(network);
    let took_ns = |compute_node| {
        let endpoint = sim.endpoint_on("", compute_node);
        let took = sim.block_on(async move {
            let begin_ns = endpoint.virtual_ns();
            endpoint.read(AT, Buffer::new()).await.unwrap();
            endpoint.virtual_ns() - begin_ns
        });
        took.unwrap()
    };
    let (far_ns, near_ns) = (took_ns(0), took_ns(1));
    assert!(near_ns + 600 < far_ns, "{near_ns} against {far_ns}: a NIC reaches itself without the switch");
    assert_eq!(sim.traffic().unwrap().nics.len(), 3, "two compute nodes', one memory node's");
}

#[test]
fn an_export_of_ones_own_compute_node_is_memory_and_one_of_another_is_behind_both_nics() {
    let sim = timed(network(2));
    let (exporter, neighbour, other) =
        (sim.endpoint_on("exporter", 1), sim.endpoint_on("neighbour", 1), sim.endpoint_on("other", 0));
    let took = sim.block_on(async move {
        let at = exporter.export(region(4096, Kind::Host)).unwrap();
        let mut took = Vec::new();
        for endpoint in [&exporter, &neighbour, &other] {
            endpoint.reach_export(at).unwrap();
            let (mut batch, begin_ns) = (Batch::new(), endpoint.virtual_ns());
            let found = batch.fetch_and_add(at, 1);
            endpoint.post(&mut batch).await.unwrap();
            took.push((batch.word(found), endpoint.virtual_ns() - begin_ns));
        }
        took
    });
    let took = took.unwrap();
    assert_eq!(took.iter().map(|(found, _)| *found).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(took[0].1 < 200 && took[1].1 < 200 && took[2].1 > 1000, "{took:?}");
    let traffic = sim.traffic().unwrap();
    assert_eq!(traffic.endpoints.iter().map(|endpoint| endpoint.of(Purpose::Request).verbs).sum::<u64>(), 1);
}

#[test]
fn every_profile_has_its_name_and_a_small_read_takes_what_its_kind_of_network_takes() {
    for (profile, ns) in
        profiles::ALL.into_iter().zip([1500..2500, 1500..3000, 1500..2000, 1500..3000, 300..420, 25_000..35_000])
    {
        assert_eq!(Profile::named(profile.name), Some(profile));
        let sim = timed(Network { cpu: CpuCosts::none(), ..Network::new(profile, 1) });
        let endpoint = sim.endpoint("client");
        sim.block_on(async move {
            let mut batch = Batch::new();
            batch.read_word(AT);
            endpoint.post(&mut batch).await.unwrap();
        })
        .unwrap();
        assert!(ns.contains(&sim.now_ns()), "{}: {} ns", profile.name, sim.now_ns());
    }
    assert_eq!(Profile::named("token-ring"), None);
}

#[test]
fn many_clients_reach_the_bound_of_their_verbs_and_no_more() {
    const PROFILE: Profile = profiles::CX5_100G;
    let read = |bytes| VerbShape { verb: VerbKind::Read, bytes, memory: Kind::Host };
    for (first, second) in [(128, 304), (8, 8), (128, 8)] {
        let sim = timed(network(3));
        for client in 0..256 {
            let endpoint = sim.endpoint_on("", client % 3);
            sim.spawn("", async move {
                loop {
                    for bytes in [first, second] {
                        let mut buffer = Buffer::new();
                        buffer.resize(bytes as usize);
                        endpoint.read(AT, buffer).await.unwrap();
                    }
                }
            });
        }
        sim.run_until(100_000).unwrap();
        let before = sim.traffic().unwrap();
        sim.run_until(300_000).unwrap();
        let passed = sim.traffic().unwrap().since(&before);
        let (limit, ps) = PROFILE.operation_ps(&[read(first), read(second)])[0];
        let (most, gets) = (passed.ns * 1000 / ps, passed.nics[3].verbs[VerbKind::Read as usize] / 2);
        // What has come is counted before it is served: of 256 clients, by 128 GETs more or less.
        assert!(gets <= most + 128 && gets > most * 98 / 100, "{gets} of {most}, limited by {limit:?}");
    }
}

#[test]
#[should_panic(expected = "a timed run takes no relaxations")]
fn relaxations_are_refused() {
    let options = SimOptions::timed(1, vec![vec![region(4096, Kind::Host)]], network(1));
    Sim::new(SimOptions { relaxations: Relaxations::all(), ..options });
}

#[test]
#[should_panic(expected = "a timed run has no faults")]
fn a_kill_is_refused() {
    let sim = timed(network(1));
    let client = sim.spawn("client", async {});
    sim.control().kill(client);
}

#[test]
fn a_lost_memory_node_fails_what_is_on_its_way_and_only_later_endpoints_reach_it() {
    let sim = timed(network(1));
    let control = sim.control();
    let [before, other] = ["before", "other"].map(|name| sim.endpoint(name));
    sim.block_on(async move {
        let write = |word_of: u8, value| {
            let mut batch = Batch::new();
            batch.write_word(Address::new(word_of, 0, 8), value);
            batch
        };
        before.post(&mut write(1, 7)).await.unwrap();
        let mut on_its_way = write(1, 8);
        let mut posted = std::pin::pin!(before.post(&mut on_its_way));
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(posted.as_mut().poll(context).is_pending())).await
        );
        control.lose_node(1);
        assert_eq!(posted.await, Err(VerbError::PeerDead));
        assert_eq!(other.post(&mut write(1, 9)).await, Err(VerbError::PeerDead));
        other.post(&mut write(0, 9)).await.unwrap();
        let after = control.endpoint("after");
        let mut batch = Batch::new();
        let found = batch.read_word(Address::new(1, 0, 8));
        after.post(&mut batch).await.unwrap();
        assert_eq!(batch.word(found), 0, "nothing that was on its way has landed");
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "device memory on a node: a NIC of cx5-100g has 262144")]
fn more_device_memory_than_a_nic_has_is_refused() {
    Sim::new(SimOptions::timed(1, vec![vec![region(1 << 20, Kind::Device)]], network(1)));
}

#[test]
fn a_message_takes_the_way_of_a_write_and_messages_wait_for_each_other() {
    let arrivals_ns = |count: u64| {
        let sim = timed(network(2));
        let (sender, receiver) = (sim.endpoint_on("sender", 0), sim.endpoint_on("receiver", 1));
        let to = receiver.mailbox();
        sim.spawn("sender", async move {
            for number in 0..count {
                sender.send(to, &number.to_le_bytes().repeat(64)).unwrap();
            }
        });
        let arrivals = sim.block_on(async move {
            let mut arrivals = Vec::new();
            for number in 0..count {
                let message = receiver.receive().await;
                assert_eq!(message.bytes, number.to_le_bytes().repeat(64), "in order, without relaxations");
                arrivals.push(receiver.virtual_ns());
            }
            arrivals
        });
        arrivals.unwrap()
    };
    let profile = profiles::CX5_100G;
    let way_ps = profile.doorbell_ps + profile.wire_ps + profile.switch_ps + profile.completion_ps;
    let alone_ns = arrivals_ns(1)[0];
    assert!((way_ps / 1000..way_ps / 1000 + 300).contains(&alone_ns), "{alone_ns}");
    let many = arrivals_ns(100);
    // The sender's processor makes one after another; the link takes less for 512 bytes.
    let apart_ns = (CpuCosts::measured().batch_ps + profile.client.batch_ps) / 1000;
    let found_ns = (many[99] - many[0]) / 99;
    assert!(found_ns.abs_diff(apart_ns) <= 2, "{found_ns} ns apart, and the sender takes {apart_ns}");
}

#[test]
fn a_memory_nodes_processor_serves_as_many_messages_as_its_cores_can() {
    for cores in [1, 2] {
        let sim = timed(network(2));
        let processor = sim.endpoint_at("processor", 1, Service::new(cores, 1000));
        let to = processor.mailbox();
        for client in 0..16 {
            let endpoint = sim.endpoint_on("client", client % 2);
            sim.spawn("client", async move {
                for _ in 0..100 {
                    endpoint.send(to, b"a request").unwrap();
                    endpoint.receive().await;
                }
            });
        }
        let busy = sim.block_on(async move {
            for _ in 0..1600 {
                let request = processor.receive().await;
                processor.send(request.from, b"an answer").unwrap();
            }
            (processor.virtual_ns(), processor)
        });
        let (ns, processor) = busy.unwrap();
        let least_ns = 1600 * 1000 / cores as u64;
        assert!((least_ns..least_ns + 5000).contains(&ns), "{cores} cores took {ns} ns for 1600 messages");
        assert!(sim.service_busy_per_mille(&processor).unwrap() > 980);
        assert_eq!(sim.traffic().unwrap().of(Purpose::default()).messages, 3200);
    }
}

#[test]
fn a_memory_nodes_processor_reaches_its_own_memory_without_a_nic_and_others_through_one() {
    let sim = timed(network(2));
    let processor = sim.endpoint_at("processor", 1, Service::new(1, 1000));
    let took = sim.block_on(async move {
        let mut took = Vec::new();
        for node in [1, 0] {
            let (before_ns, mut batch) = (processor.virtual_ns(), Batch::new());
            batch.write_word(Address::new(node, 0, 64), 7);
            let read = batch.read_word(Address::new(node, 0, 64));
            processor.post(&mut batch).await.unwrap();
            assert_eq!(batch.word(read), 7);
            took.push(processor.virtual_ns() - before_ns);
        }
        took
    });
    let took = took.unwrap();
    assert!(took[0] < 50 && took[1] > 1000, "{took:?} ns");
    let traffic = sim.traffic().unwrap();
    let verbs: Vec<u64> = traffic.nics.iter().map(|nic| nic.verbs.iter().sum()).collect();
    assert_eq!(verbs.iter().sum::<u64>(), 2, "{verbs:?}");
}

/// Steps of a run in which a server that waits for each message for a millisecond gets so many, at
/// intervals of 2 us; and how its time went on.
fn steps_of_a_server(messages: u64) -> (u64, u64) {
    let sim = timed(network(1));
    let (client, server) = (sim.endpoint("client"), sim.endpoint("server"));
    let to = server.mailbox();
    let took_ns = Rc::new(Cell::new(0));
    let taken_ns = took_ns.clone();
    sim.spawn("client", async move {
        for _ in 0..messages {
            client.send(to, b"message").unwrap();
            client.pause(2_000).await;
        }
    });
    sim.spawn("server", async move {
        let mut heard = 0;
        while server.receive_within(1_000_000).await.is_some() {
            heard += 1;
            taken_ns.set(server.virtual_ns());
        }
        assert_eq!(heard, messages);
        // Nothing wakes it after its last message but the limit.
        assert!((1_000_000..1_001_000).contains(&(server.virtual_ns() - taken_ns.get())));
    });
    (sim.run().unwrap().steps, took_ns.get())
}

#[test]
fn a_limit_that_was_not_reached_wakes_nobody_later() {
    let ((steps, ns), (steps_of_more, ns_of_more)) = (steps_of_a_server(1000), steps_of_a_server(4000));
    // A pause's ring, three ways of the message, and now and then a ring that comes in vain: as
    // many for the last message as for the first.
    assert!(steps <= 5 * 1000 && steps_of_more <= 5 * 4000, "{steps} steps, then {steps_of_more}");
    assert!(ns_of_more.abs_diff(4 * ns) < 4 * ns / 100, "{ns} ns, then {ns_of_more}");
}
