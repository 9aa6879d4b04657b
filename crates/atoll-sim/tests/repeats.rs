//! What the simulator itself promises: a seed repeats a run, and ends of runs are told apart.

use atoll_fabric::{Address, Batch, Buffer, Endpoint};
use atoll_sim::{Relaxations, RunReport, Sim, SimError, SimOptions, Strategy, for_each_seed};
use std::cell::RefCell;
use std::rc::Rc;

/// Some clients doing a bit of everything.
fn mixed(options: SimOptions) -> RunReport {
    let sim = Sim::new(options);
    for client in 0..4_u64 {
        let endpoint = sim.endpoint(&format!("client {client}"));
        sim.spawn(&format!("client {client}"), async move {
            let mut batch = Batch::new();
            for _ in 0..50 {
                let mut data = Buffer::new();
                data.resize(8 * (1 + endpoint.random() as usize % 100));
                data.words_mut().fill(endpoint.random());
                let data = batch.write(Address::new(0, 0, 1024), data);
                batch.compare_and_swap(Address::new(0, 0, 0), endpoint.random() % 4, client);
                batch.read_word(Address::new(0, 0, 1024));
                batch.fetch_and_add(Address::new(0, 0, 8), 1);
                endpoint.post(&mut batch).await.unwrap();
                assert!(batch.take(data).len() >= 8);
                batch.clear();
                batch.fetch_and_add(Address::new(0, 0, 8), 1);
                endpoint.post_unawaited(&mut batch);
                endpoint.pause(endpoint.random() % 1000).await;
            }
            endpoint.flush().await.unwrap();
        });
    }
    let report = sim.run().unwrap();
    assert_eq!(sim.peek_word(Address::new(0, 0, 8)), 4 * 50 * 2);
    report
}

#[test]
fn a_seed_repeats_a_run_and_other_seeds_differ() {
    let mut digests = std::collections::HashSet::new();
    for strategy in [Strategy::FromSeed, Strategy::Uniform, Strategy::Bursts, Strategy::Priorities] {
        for_each_seed(20, |seed| {
            let run = || mixed(SimOptions { strategy, ..SimOptions::new(seed, 1 << 16) });
            let report = run();
            assert_eq!(report, run());
            digests.insert(report.digest);
        });
    }
    assert!(digests.len() >= 60, "{}", digests.len());
}

#[test]
fn without_relaxations_everything_still_takes_effect() {
    for_each_seed(20, |seed| {
        mixed(SimOptions { relaxations: Relaxations::none(), ..SimOptions::new(seed, 1 << 16) });
    });
}

#[test]
fn a_task_that_nothing_will_wake_is_a_deadlock_and_one_that_spins_a_livelock() {
    let sim = Sim::new(SimOptions::new(1, 4096));
    sim.spawn("stuck", std::future::pending());
    let error = sim.run().unwrap_err();
    assert!(matches!(error, SimError::Deadlock { .. }), "{error}");
    assert!(error.to_string().contains("stuck: task waiting"), "{error}");

    let sim = Sim::new(SimOptions { steps_max: 10_000, ..SimOptions::new(1, 4096) });
    let endpoint = sim.endpoint("spinner");
    sim.spawn("spinner", async move {
        let mut batch = Batch::new();
        loop {
            batch.clear();
            let latch = batch.read_word(Address::new(0, 0, 0));
            endpoint.post(&mut batch).await.unwrap();
            if batch.word(latch) != 0 {
                break;
            }
        }
    });
    let error = sim.run().unwrap_err();
    assert!(matches!(error, SimError::Livelock { .. }), "{error}");
    assert!(error.to_string().contains("ATOLL_SIM_SEED=1"), "{error}");
}

#[test]
fn tasks_may_wake_each_other_past_the_fabric() {
    let sim = Sim::new(SimOptions::new(1, 4096));
    let cell: Rc<RefCell<(bool, Option<std::task::Waker>)>> = Rc::default();
    let other = cell.clone();
    sim.spawn("waits", async move {
        std::future::poll_fn(|context| {
            let mut cell = cell.borrow_mut();
            cell.1 = Some(context.waker().clone());
            if cell.0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    let endpoint = sim.endpoint("wakes");
    sim.spawn("wakes", async move {
        endpoint.pause(5000).await;
        let mut cell = other.borrow_mut();
        cell.0 = true;
        if let Some(waker) = cell.1.take() {
            waker.wake();
        }
    });
    sim.run().unwrap();
    assert!(sim.now_ns() >= 5000);
}

/// What a simulation calls may hold its control, and a task its history: nothing of that outlives
/// it.
#[test]
fn a_simulation_that_is_dropped_drops_what_it_calls_and_what_it_runs() {
    let sim = Sim::new(SimOptions::new(1, 4096));
    let (control, held) = (sim.control(), Rc::new(()));
    let (of_call, of_task) = (held.clone(), held.clone());
    let in_call = control.clone();
    control.on_shut_out(move |_| {
        let _ = (&in_call, &of_call);
    });
    let in_task = control.clone();
    sim.spawn("waits", async move {
        std::future::pending::<()>().await;
        drop((in_task, of_task));
    });
    drop((control, sim));
    assert_eq!(Rc::strong_count(&held), 1);
}
