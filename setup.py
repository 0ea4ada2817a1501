# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Package definition: ament_python for colcon, a plain package for pip."""

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

NAME = 'openpi_policy_ros'
SIM = f'{NAME}_sim'
CONFIG = glob('config/*.yaml') + glob('config/*.xml')

setup(
    name=NAME,
    version='0.1.0',
    description='Serve vision-language-action policies over OpenPI WebSocket and ROS 2',
    long_description=Path('README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    author='openpi_policy_ros contributors',
    maintainer='openpi_policy_ros contributors',
    maintainer_email='maintainers@openpi-policy-ros.example',
    python_requires='>=3.10',
    # config/ is package data (found without ROS) and mirrored to share/ (where ROS looks).
    packages=[
        *find_packages(include=[NAME, f'{NAME}.*']),
        f'{NAME}.config',
        SIM,
        f'{SIM}.commands',
        f'{SIM}.ros',
    ],
    package_dir={f'{NAME}.config': 'config', SIM: 'sim'},
    package_data={
        f'{NAME}.config': ['*.yaml', '*.xml', 'rviz/*.rviz', 'foxglove/*.json'],
        NAME: ['py.typed'],
        SIM: ['py.typed', 'checkpoint/*', 'checkpoint/tokenizer/*'],
    },
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', glob('launch/*.launch.py')),
        (f'share/{NAME}/config', CONFIG),
        (f'share/{NAME}/config/rviz', glob('config/rviz/*.rviz')),
        (f'share/{NAME}/config/foxglove', glob('config/foxglove/*.json')),
    ],
    # rclpy is not listed: it comes from ROS 2 (package.xml) or from the wheels in
    # requirements/ros.txt, and the server runs without it.
    install_requires=[
        'annotated-types>=0.4',
        'huggingface-hub>=0.30',
        'msgpack>=1.0.3',
        'numpy>=1.22',
        'opencv-python-headless>=4.5',
        'packaging>=21',
        'pydantic>=2.7',
        'pyyaml>=5.4',
        'safetensors>=0.4.3',
        'setuptools',
        'tokenizers>=0.19',
        'torch>=2.5',
        'tqdm>=4.57',
        'websockets>=14.0',
    ],
    # colcon chooses its test runner by this; what the tests need is in requirements/test.txt.
    extras_require={
        # Text, image and video encoders of DreamZero; ftfy cleans its prompts.
        'dreamzero': ['diffusers>=0.38', 'ftfy>=6.1', 'transformers>=5.0'],
        'plot': ['matplotlib>=3.7'],
        'record': ['rosbags>=0.11.9,<0.12'],
        # Older ones let round things creep over the table.
        # dm-tree and typing_extensions are what openpi-client needs; itself it pins numpy<2, so it
        # is installed apart, see requirements/client-nodeps.txt.
        'sim': ['dm-tree', 'mujoco>=3.8', 'pillow', 'typing_extensions'],
        'test': ['pytest>=7,<8.4'],
        'uvloop': ['uvloop>=0.18'],
    },
    entry_points={
        'console_scripts': [
            'openpi-policy = openpi_policy_ros.cli:main',
            f'openpi-policy-sim = {SIM}.cli:main',
            'openpi_policy_node = openpi_policy_ros.ros.main:main',
            'openpi_policy_fake_robot = openpi_policy_ros.fake_robot.main:main',
            f'openpi_policy_sim_robot = {SIM}.ros.main:main',
        ],
        'openpi_policy_ros.models': [f'demo = {SIM}.demo:demo_checkpoint'],
        'openpi_policy_ros.policies': [
            'dreamzero = openpi_policy_ros.policies.dreamzero:PLUGIN',
            'pi0 = openpi_policy_ros.policies.pi0:PLUGIN',
            'pi05 = openpi_policy_ros.policies.pi0:PI05',
            'remote = openpi_policy_ros.client.remote:PLUGIN',
            'rehearsal = openpi_policy_ros.policies.rehearsal:PLUGIN',
            f'sim_expert = {SIM}.sim_expert:PLUGIN',
        ],
    },
    zip_safe=False,
)
