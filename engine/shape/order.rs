//! The order in which definitions can be compiled: each after those it uses.

/// Orders `0..uses.len()` so that each comes after those it uses, as far as cycles allow, and gives the cycles: in each, every one uses the next, and the last uses the first.
///
/// Every index is in the order once. After the members of the cycles are taken out, no cycle is left.
pub(super) fn order(uses: &[Vec<usize>]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut users = vec![Vec::new(); uses.len()];
    for (user, used) in uses.iter().enumerate() {
        for &used in used {
            users[used].push(user);
        }
    }
    let mut unmet: Vec<usize> = uses.iter().map(Vec::len).collect();
    let mut is_placed = vec![false; uses.len()];
    let mut order: Vec<usize> = (0..uses.len()).filter(|it| unmet[*it] == 0).collect();
    let mut cycles = Vec::new();
    let mut next = 0;
    let mut first_stuck = 0;
    loop {
        while next < order.len() {
            is_placed[order[next]] = true;
            for &user in &users[order[next]] {
                unmet[user] -= 1;
                if unmet[user] == 0 && !is_placed[user] {
                    order.push(user);
                }
            }
            next += 1;
        }
        match (first_stuck..uses.len()).find(|it| !is_placed[*it]) {
            None => return (order, cycles),
            Some(stuck) => {
                let cycle = cycle_from(stuck, uses, &is_placed);
                cycle.iter().for_each(|it| is_placed[*it] = true);
                order.extend(&cycle);
                cycles.push(cycle);
                first_stuck = stuck;
            }
        }
    }
}

/// Follows what keeps `start` waiting until it comes round.
fn cycle_from(start: usize, uses: &[Vec<usize>], is_placed: &[bool]) -> Vec<usize> {
    let mut path = vec![start];
    let mut position = vec![None; uses.len()];
    position[start] = Some(0);
    loop {
        let here = path[path.len() - 1];
        let next = uses[here].iter().copied().find(|it| !is_placed[*it]);
        let next = next.expect("what was not placed waits for something that was not placed");
        if let Some(begin) = position[next] {
            return path.split_off(begin);
        }
        position[next] = Some(path.len());
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(uses: &[&[usize]], expect: Expect) {
        let uses: Vec<Vec<usize>> = uses.iter().map(|it| it.to_vec()).collect();
        let (order, cycles) = order(&uses);
        expect.assert_eq(&format!("{order:?} {cycles:?}"));
    }

    #[test]
    fn puts_each_after_what_it_uses() {
        check(&[], expect!["[] []"]);
        check(&[&[1, 2], &[2], &[]], expect!["[2, 1, 0] []"]);
    }

    #[test]
    fn finds_every_cycle_once() {
        check(&[&[0]], expect!["[0] [[0]]"]);
        check(
            &[&[1], &[2], &[1], &[4], &[3, 5], &[]],
            expect!["[5, 1, 2, 0, 3, 4] [[1, 2], [3, 4]]"],
        );
    }
}
