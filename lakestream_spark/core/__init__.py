"""Words everyone uses: ids and offsets, the error tree, the clock, retrying.

Owns no state and does no I/O of its own. What always holds: nothing here imports another
package of the project, and time, randomness and sleep reach the code only through arguments.
"""
