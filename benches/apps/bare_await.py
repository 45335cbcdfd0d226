"""A bare event loop that makes one Task a round: what a handler that awaits costs without any server.

usage: bare_await.py MILLISECONDS CONCURRENCY SECONDS. Prints one line of JSON.
"""

import asyncio
import json
import sys
import time


async def main(pause: float, concurrency: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    count, waited = 0, 0.0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal count, waited
        while (begin := time.perf_counter()) < end:
            await loop.create_task(asyncio.sleep(pause))
            count += 1
            waited += time.perf_counter() - begin

    cpu, begin = time.process_time(), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    cpu, elapsed = time.process_time() - cpu, time.perf_counter() - begin
    report = {
        "rounds_per_second": count / elapsed,
        "mean_ms": waited / count * 1e3,
        "cpu_us_per_round": cpu / count * 1e6,
        "cores": cpu / elapsed,
    }
    print(json.dumps(report))


asyncio.run(main(float(sys.argv[1]) / 1e3, int(sys.argv[2]), float(sys.argv[3])))
