//! Drawn graphs, and small random ones against what trying everything finds.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use proptest::{collection::vec, prelude::*, test_runner::RngSeed};

use super::*;

/// The same cases every time.
pub(crate) fn repeatable(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        ..Default::default()
    }
}

/// Turns names into places: for each task its name and the names of what it needs.
pub(crate) fn connect(tasks: &[(&str, &str)]) -> Vec<Vec<TaskIx>> {
    let place = |name: &str| {
        let at = tasks.iter().position(|(it, _)| *it == name);
        TaskIx::new(at.unwrap_or_else(|| panic!("`{name}` is no task")))
    };
    let needs = |(_, needs): &(&str, &str)| needs.split_whitespace().map(place).collect();
    tasks.iter().map(needs).collect()
}

/// Says of each line `task <- needs` how far the task is from both ends, and below what is true of all.
#[track_caller]
fn check(text: &str, expect: Expect) {
    let tasks: Vec<(&str, &str)> = text
        .lines()
        .map(|it| it.split_once("<-").unwrap_or((it, "")))
        .map(|(name, needs)| (name.trim(), needs))
        .collect();
    let names = |path: &[TaskIx]| -> String {
        let names: Vec<&str> = path.iter().map(|it| tasks[it.at()].0).collect();
        names.join(" ")
    };
    let actual = match TaskGraph::new(&connect(&tasks)) {
        Err(cycles) => {
            let found = cycles.found.iter().map(|it| names(&it.path));
            found.collect::<Vec<_>>().join("\n")
        }
        Ok(graph) => {
            let (levels, remaining) = (graph.levels(), graph.remaining(|_| 1));
            let mut lines = String::new();
            for task in graph.tasks() {
                let (level, remaining) = (levels[task.at()], remaining[task.at()]);
                let (needs, feeds) = (names(graph.needs(task)), names(graph.feeds(task)));
                let name = tasks[task.at()].0;
                lines += &format!("{name} [{needs}] -> [{feeds}] {level} {remaining}\n");
            }
            let path = names(&graph.critical_path());
            format!(
                "{lines}{} edges, longest {path}, {:?}\n",
                graph.edges(),
                graph.width()
            )
        }
    };
    expect.assert_eq(&actual);
}

#[test]
fn a_graph_knows_both_directions_and_counts_a_dependency_once() {
    check(
        "",
        expect![[r#"
        0 edges, longest , Exact(0)
    "#]],
    );
    check(
        "a\nb <- a\nc <- b a b",
        expect![[r#"
        a [] -> [b c] 0 3
        b [a] -> [c] 1 2
        c [b a] -> [] 2 1
        3 edges, longest a b c, Exact(1)
    "#]],
    );
    check(
        "join <- left right\nleft <- split\nright <- split\nsplit",
        expect![[r#"
            join [left right] -> [] 2 1
            left [split] -> [join] 1 2
            right [split] -> [join] 1 2
            split [] -> [left right] 0 3
            4 edges, longest split left join, Exact(2)
        "#]],
    );
}

#[test]
fn the_longest_chain_and_the_width_are_not_what_the_levels_suggest() {
    // `b p q` can run at once, though no level has more than two.
    check(
        "a\nb <- a\nx\ny <- x\nz <- y\np <- z\nq <- z",
        expect![[r#"
            a [] -> [b] 0 2
            b [a] -> [] 1 1
            x [] -> [y] 0 4
            y [x] -> [z] 1 3
            z [y] -> [p q] 2 2
            p [z] -> [] 3 1
            q [z] -> [] 3 1
            5 edges, longest x y z p, Exact(3)
        "#]],
    );
    check(
        "a\nb\nc <- b\nd <- a c\ne <- c",
        expect![[r#"
        a [] -> [d] 0 2
        b [] -> [c] 0 3
        c [b] -> [d e] 1 2
        d [a c] -> [] 2 1
        e [c] -> [] 2 1
        4 edges, longest b c d, Exact(2)
    "#]],
    );
}

#[test]
fn a_cycle_is_a_shortest_one_and_closed() {
    check("a <- a", expect!["a a"]);
    check("x\na <- x c\nb <- a\nc <- b", expect!["a c b a"]);
    // A long one, in which there is a short one.
    check("a <- d\nb <- a\nc <- b\nd <- c b", expect!["a d b a"]);
    // Of two as short, the one declared first; what only waits for them is not in it.
    check(
        "tail <- d b\na <- b\nb <- a\nc <- d\nd <- c",
        expect![[r#"
            a b a
            c d c"#]],
    );
    // The first one is between two cycles, but on neither.
    check(
        "m <- x\na <- b\nb <- a m\nx <- y\ny <- z\nz <- x",
        expect![[r#"
            a b a
            x y z x"#]],
    );
    check(
        "a <- b\nb <- c\nc <- a\nd <- d c",
        expect![[r#"
        a b c a
        d d"#]],
    );
}

#[test]
fn of_very_many_cycles_the_first_are_told() {
    let pairs = (0..200_000).map(|it| vec![TaskIx::new(it ^ 1)]);
    let needs: Vec<Vec<TaskIx>> = pairs.collect();
    let cycles = TaskGraph::new(&needs).expect_err("they are cycles");
    assert_eq!((cycles.found.len(), cycles.more), (50, 99_950));
    assert_eq!(cycles.found[49].path, [98, 99, 98].map(TaskIx::new));
    expect!["and 99950 more such groups of tasks, after the first 50"]
        .assert_eq(&cycles.and_more().unwrap_or_default());
}

#[test]
fn size_costs_no_stack_and_little_memory() {
    const N: usize = 100_000;
    let chain: Vec<Vec<TaskIx>> = (0..N)
        .map(|it| it.checked_sub(1).map(TaskIx::new).into_iter().collect())
        .collect();
    let graph = TaskGraph::new(&chain).expect("a chain is acyclic");
    assert_eq!(graph.critical_path().len(), N);
    assert_eq!(graph.width(), Width::AtLeast(1));
    let starts = graph.needs.starts.capacity() + graph.feeds.starts.capacity();
    let tasks = graph.needs.to.capacity() + graph.feeds.to.capacity() + graph.order.capacity();
    let bytes = starts * size_of::<usize>() + tasks * size_of::<TaskIx>();
    assert!(bytes - 8 * graph.edges() <= 20 * N + 16, "{bytes} bytes");

    let wide = TaskGraph::new(&vec![vec![]; N]).expect("nothing needs anything");
    assert_eq!(wide.width(), Width::AtLeast(N));
}

#[test]
fn a_tangle_too_large_to_search_still_has_a_cycle() {
    // A way of 100 tasks to a ring of very many; and two tasks, declared last, that need the way and each other.
    // The search goes round the ring from each task of it, until it is given up.
    const N: usize = 100_000;
    let mut needs: Vec<Vec<TaskIx>> = (1..N).map(|it| vec![TaskIx::new(it)]).collect();
    needs.push(vec![TaskIx::new(100)]);
    needs.push(vec![TaskIx::new(0), TaskIx::new(N + 1)]);
    needs.push(vec![TaskIx::new(N)]);
    let cycles = TaskGraph::new(&needs).expect_err("a ring is a cycle");
    for Cycle { path } in &cycles.found {
        assert_closed(&needs, path);
    }
    let lengths: Vec<usize> = cycles.found.iter().map(|it| it.path.len()).collect();
    assert_eq!((lengths, cycles.more), (vec![N - 100 + 1, 3], 0));
}

#[track_caller]
fn assert_closed(needs: &[Vec<TaskIx>], path: &[TaskIx]) {
    assert!(path.len() >= 2 && path.first() == path.last());
    for pair in path.windows(2) {
        assert!(needs[pair[0].at()].contains(&pair[1]), "{pair:?}");
    }
    let once: BTreeSet<&TaskIx> = path[1..].iter().collect();
    assert_eq!(once.len(), path.len() - 1, "a task is visited once");
}

/// For each task, whom it needs of all tasks.
fn any_needs() -> impl Strategy<Value = Vec<Vec<bool>>> {
    (1..9usize, 1..9u32).prop_flat_map(|(n, sparsity)| {
        vec(vec(prop::bool::weighted(1.0 / f64::from(sparsity)), n), n)
    })
}

fn lists(needs: &[Vec<bool>]) -> Vec<Vec<TaskIx>> {
    let list = |row: &Vec<bool>| {
        let chosen = row.iter().enumerate().filter(|(_, it)| **it);
        chosen.map(|(at, _)| TaskIx::new(at)).collect()
    };
    needs.iter().map(list).collect()
}

/// From each task to each, if there is a way.
type Distances = Vec<Vec<Option<usize>>>;

/// Of how many dependencies the shortest ways are, and the longest unless there are cycles.
fn distances(needs: &[Vec<bool>]) -> (Distances, Distances) {
    let n = needs.len();
    let near: Distances = needs
        .iter()
        .map(|row| row.iter().map(|it| it.then_some(1)).collect())
        .collect();
    let (mut least, mut most) = (near.clone(), near);
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                if let (Some(a), Some(b)) = (least[from][via], least[via][to]) {
                    least[from][to] = Some(least[from][to].map_or(a + b, |it| it.min(a + b)));
                }
                if let (Some(a), Some(b)) = (most[from][via], most[via][to]) {
                    most[from][to] = most[from][to].max(Some(a + b));
                }
            }
        }
    }
    (least, most)
}

proptest! {
    #![proptest_config(repeatable(2000))]

    #[test]
    fn a_cycle_is_found_if_there_is_one_and_none_is_shorter(needs in any_needs()) {
        let (least, _) = distances(&needs);
        // Of those that need each other: as short as can be, and from the first task that is on one so short.
        let n = needs.len();
        let knot = |it: usize| (0..n).find(|to| least[it][*to].and(least[*to][it]).is_some());
        let mut wanted = BTreeMap::new();
        for (knot, at) in (0..n).filter_map(|it| Some((knot(it)?, it))) {
            let least = (least[at][at].expect("it is on a cycle"), at);
            let best = wanted.entry(knot).or_insert(least);
            *best = least.min(*best);
        }
        let found = TaskGraph::new(&lists(&needs)).err();
        let found = found.map(|it| it.found).unwrap_or_default();
        found.iter().for_each(|it| assert_closed(&lists(&needs), &it.path));
        let found: Vec<_> = found.iter().map(|it| (it.path.len() - 1, it.path[0].at())).collect();
        prop_assert_eq!(found, wanted.into_values().collect::<Vec<_>>());
    }

    #[test]
    fn an_acyclic_graph_is_measured_right(mut needs in any_needs(), order in any::<u64>()) {
        let n = needs.len();
        let mut places: Vec<usize> = (0..n).collect();
        fastrand::Rng::with_seed(order).shuffle(&mut places);
        for from in 0..n {
            for to in 0..n {
                needs[from][to] &= places[to] < places[from];
            }
        }
        let (_, most) = distances(&needs);
        let graph = TaskGraph::new(&lists(&needs)).expect("needs go down in the shuffled order");

        let levels: Vec<usize> = graph.levels().iter().map(|it| *it as usize).collect();
        let farthest = |it: usize| (0..n).filter_map(|to| most[it][to]).max().unwrap_or(0);
        prop_assert_eq!(levels, (0..n).map(farthest).collect::<Vec<_>>());

        let farthest = |it: usize| (0..n).filter_map(|from| most[from][it]).max().unwrap_or(0);
        let remaining: Vec<usize> = (0..n).map(|it| farthest(it) + 1).collect();
        let path = graph.critical_path();
        prop_assert_eq!(Some(&path.len()), remaining.iter().max());
        prop_assert!(path.windows(2).all(|it| graph.needs(it[1]).contains(&it[0])));
        let computed = graph.remaining(|_| 1);
        prop_assert_eq!(computed, remaining.iter().map(|it| *it as u64).collect::<Vec<_>>());

        let is_antichain = |set: &usize| {
            let members = || (0..n).filter(|it| set & (1 << it) != 0);
            members().all(|a| members().all(|b| most[a][b].is_none()))
        };
        let widest = (0..1_usize << n).filter(is_antichain).map(usize::count_ones).max();
        prop_assert_eq!(Some(graph.width()), widest.map(|it| Width::Exact(it as usize)));
    }
}
